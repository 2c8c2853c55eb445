"""Data-parallel training under ``torchrun``: who this process is, and how processes agree.

Every process draws the same global batch and works on the rows of its users;
gradients are added up, so all hold the same weights. The first process judges,
writes and talks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from cerp.errors import ConfigError


@contextmanager
def process_group(device: str) -> Iterator[str]:
    """Join the group that torchrun set up, if there is one; gives the device of this process."""
    if "WORLD_SIZE" not in os.environ or int(os.environ["WORLD_SIZE"]) == 1:
        yield device
        return
    is_gpu = torch.device(device).type == "cuda"
    if is_gpu:
        local = int(os.environ["LOCAL_RANK"])
        if local >= torch.cuda.device_count():
            raise ConfigError(
                f"process {local} has no GPU of its own; "
                f"start at most {torch.cuda.device_count()} processes on this machine"
            )
        device = f"cuda:{local}"
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if is_gpu else "gloo")
    try:
        yield device
    finally:
        dist.destroy_process_group()


def rank() -> int:
    """0 in the first process, and where there is only one."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def from_first(value: float, device: torch.device) -> float:
    """The value that the first process has."""
    if not dist.is_initialized():
        return value
    shared = torch.tensor(value, dtype=torch.float64, device=device)
    dist.broadcast(shared, src=0)
    return float(shared)
