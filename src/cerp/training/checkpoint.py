"""Checkpoints: tensors and facts in one safetensors file, whole or not there at all."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from cerp.errors import CheckpointError
from cerp.files import write_bytes
from cerp.training.adam import Optimizer


def write_checkpoint(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write under a temporary name, flush to disk, rename: an older file stays until then."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(facts)
    write_bytes(path, save(plain, {"facts": text, "sha256": _digest(plain, text)}))


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_checkpoint` wrote; what was changed since is refused."""
    try:
        with safe_open(path, framework="pt") as file:
            noted = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        text, digest = noted["facts"], noted["sha256"]
        if digest != _digest(tensors, text):
            raise ValueError("its checksum does not fit: it is not as it was written")
        return tensors, json.loads(text)
    except (OSError, SafetensorError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(
            f"{path} is not a readable checkpoint ({error}); remove it to start afresh"
        ) from error


def _digest(tensors: dict[str, Tensor], facts: str) -> str:
    """Of all that is read again: names, types, shapes, values and facts."""
    digest = hashlib.sha256(facts.encode("utf-8", "surrogatepass"))
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode("ascii"))
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def pack_optimizer(optimizer: Optimizer) -> dict[str, Tensor]:
    """What an optimizer remembers, as named tensors; its settings are the configuration's."""
    return {
        f"{index}.{name}": value
        for index, entries in optimizer.state_dict()["state"].items()
        for name, value in entries.items()
    }


def unpack_optimizer(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Bring an optimizer over the same parameters back to a packed state."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = value
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
