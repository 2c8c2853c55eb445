"""Data-parallel training under ``torchrun``: who this process is, and how processes agree.

Every process holds the training pairs of its users and works on their rows of a global batch;
gradients are added up, so all hold the same weights. All judge, each for a part of the users;
the first process writes and talks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from cerp.data.ids import Int32Array
from cerp.errors import ConfigError, TrainingError

LONGEST_WAIT = timedelta(minutes=30)
"""For what all processes do together; longer, and one of them is taken for lost."""
LOST = ("connection closed by peer", "connection reset", "broken pipe", "connection refused")
LATE = ("timed out", "timeout")
"""What Gloo and NCCL say, in lower case, when another process is gone, or does not come."""


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
    dist.init_process_group("nccl" if is_gpu else "gloo", timeout=LONGEST_WAIT)
    try:
        yield device
    except RuntimeError as error:
        if (words := lost_words(error)) is not None:
            raise TrainingError(words) from error
        raise
    finally:
        dist.destroy_process_group()


def lost_words(error: RuntimeError) -> str | None:
    """What happened when talking to the other processes failed; None: it was something else."""
    said = str(error).lower()
    if any(word in said for word in LOST):
        what = (
            "another process of this training is gone: it failed, or was killed, as the system "
            "does where memory runs out (signal 9, SIGKILL)"
        )
    elif any(word in said for word in LATE):
        what = (
            f"another process of this training did not answer for {LONGEST_WAIT}: it is gone, "
            "stopped, or out of reach"
        )
    else:
        return None
    return f"{what}. Its own messages, above, say more; the run goes on with resume=True"


def refuse_separate_folders(folder: Path, *, has_run: bool) -> None:
    """Refuse to go on with a run that some processes see and others do not."""
    if world_size() == 1:
        return
    seen = torch.tensor([int(has_run)], device=_device())
    dist.all_reduce(seen)
    if 0 < int(seen) < world_size():
        raise ConfigError(
            f"{int(seen)} of {world_size()} processes find a run in {folder}, and the others find "
            "none: resuming takes a folder that all nodes share, such as one on a network file "
            "system. Copy it to every node, or train anew into another folder"
        )


class AllJudge:
    """`cerp.evaluation.evaluate.Sharing` by the processes of the group, in order of rank."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def part(self, users: Int32Array) -> Int32Array:
        """An equal stretch for each process."""
        return np.array_split(users, world_size())[rank()]

    def whole(self, lists: Int32Array, count: int) -> Int32Array:
        """All lists, in every process."""
        counts = [len(part) for part in np.array_split(np.arange(count), world_size())]
        mine = torch.zeros((max(counts), lists.shape[1]), dtype=torch.int32, device=self.device)
        mine[: len(lists)] = torch.from_numpy(lists)
        gathered = [torch.empty_like(mine) for _ in counts]
        dist.all_gather(gathered, mine)
        parts = [found[:size] for found, size in zip(gathered, counts, strict=True)]
        return torch.cat(parts).cpu().numpy()


def all_judge(device: torch.device) -> AllJudge | None:
    """How the processes there are share the judging; None where there is only one."""
    return AllJudge(device) if world_size() > 1 else None


def rank() -> int:
    """0 in the first process, and where there is only one."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def _device() -> torch.device:
    """Where the group's messages lie."""
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")


def add_up_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Every process holds the gradient of its rows of the batch; the sum is that of all."""
    for parameter in parameters:
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)


def from_first(value: float, device: torch.device) -> float:
    """The value that the first process has."""
    if not dist.is_initialized():
        return value
    shared = torch.tensor(value, dtype=torch.float64, device=device)
    dist.broadcast(shared, src=0)
    return float(shared)
