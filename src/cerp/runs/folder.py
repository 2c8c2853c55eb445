"""What a run keeps in its folder: the names of its files, its configuration, its curves."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cerp.config import Config, differences
from cerp.data.splits import Splits
from cerp.errors import ConfigError, DataError
from cerp.files import make_folder, write_json, write_text
from cerp.training.distributed import rank

CONFIG, RESULT, SEARCHED = "config.json", "metrics.json", "searched.safetensors"


def model_file(budget: str) -> str:
    """The weights of a finished model."""
    return f"model-{budget}.safetensors"


def trained_file(stage: str) -> str:
    """What a finished training leaves until its model is whole, so that it is not done twice."""
    return f".{stage}.safetensors"


def refuse_other(folder: Path, config: Config, splits: Splits, *, resume: bool) -> None:
    """Refuse a folder with another run, and one with this run unless it is to be resumed."""
    path = folder / CONFIG
    # The first process may have begun this run before the others come here.
    if rank() > 0 or not path.exists():
        return
    if found := differences(_described(config, splits), _read(path)):
        raise ConfigError(
            f"{folder} holds another run; it differs in {'; '.join(found)} "
            "(asked for against there). Choose another folder, or remove it"
        )
    if not resume:
        raise ConfigError(f"{folder} holds this run already; pass --resume to go on with it")


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Work in a folder, which only one process may do at a time.

    The lock goes when the process does, however it ends. Windows has no such locks.
    """
    if rank() > 0 or sys.platform == "win32":
        yield
        return
    import fcntl

    make_folder(folder)
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise ConfigError(
            f"another process is at work in {folder}; wait until it ends, or choose another folder"
        ) from None
    except OSError:
        pass  # a file system without locks
    try:
        yield
    finally:
        os.close(lock)


def begin(folder: Path, config: Config, splits: Splits) -> None:
    """Say in a folder which run it holds."""
    if rank() > 0 or (folder / CONFIG).exists():
        return
    make_folder(folder)
    write_json(folder / CONFIG, _described(config, splits))


def finished_config(folder: Path, splits: Splits) -> Config:
    """The configuration of a finished run, which must have been trained on these splits."""
    if not (folder / RESULT).is_file():
        raise DataError(
            f"{folder} holds no finished run (no {RESULT}); "
            "if it was interrupted, go on with 'cerp train ... --resume'"
        )
    there = _read(folder / CONFIG)
    if there.keys() != {"config", "fingerprint"}:
        raise DataError(f"{folder / CONFIG} is not what a run writes; was it changed?")
    if there["fingerprint"] != splits.fingerprint:
        raise DataError(
            f"{folder} was trained on other data, or on another split: its fingerprint is "
            f"{there['fingerprint'][:12]}, that of --data {splits.fingerprint[:12]}. Name the same "
            "data, split alike; a split is kept by 'cerp data split ... -o FOLDER'"
        )
    return Config.from_dict(there["config"])


def _described(config: Config, splits: Splits) -> dict[str, Any]:
    return {"config": config.to_dict(), "fingerprint": splits.fingerprint}


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error})") from None
    return found


def add_curves(folder: Path, stage: str, history: Iterable[dict[str, float]]) -> None:
    """Put the curves of a stage, a row per epoch, into ``curves.jsonl``, in place of older ones."""
    path = folder / "curves.jsonl"
    kept = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = [line for line in kept if json.loads(line)["stage"] != stage]
    rows = [json.dumps({"stage": stage, **row}) for row in history]
    if lines := [*kept, *rows]:
        write_text(path, "\n".join(lines) + "\n")
