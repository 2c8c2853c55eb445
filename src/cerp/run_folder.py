"""What a run keeps in its folder beside models: its configuration and its curves."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from cerp.config import Config, differences
from cerp.data.splits import Splits
from cerp.distributed import rank
from cerp.errors import ConfigError
from cerp.files import write_json, write_text


def enter(folder: Path, config: Config, splits: Splits, *, resume: bool) -> None:
    """Start a run in a folder, or go on with the one that is there, if it is the same."""
    mine = {"config": config.to_dict(), "fingerprint": splits.fingerprint}
    path = folder / "config.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if rank() == 0:
            write_json(path, mine)
        return
    if found := differences(mine, json.loads(path.read_text(encoding="utf-8"))):
        raise ConfigError(
            f"{folder} holds another run; it differs in {'; '.join(found)} "
            "(asked for against there). Choose another folder, or remove it"
        )
    if not resume:
        raise ConfigError(f"{folder} holds this run already; pass --resume to go on with it")


def add_curves(folder: Path, stage: str, history: Iterable[dict[str, float]]) -> None:
    """Put the curves of a stage, a row per epoch, into ``curves.jsonl``, in place of older ones."""
    path = folder / "curves.jsonl"
    kept = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = [line for line in kept if json.loads(line)["stage"] != stage]
    rows = [json.dumps({"stage": stage, **row}) for row in history]
    if lines := [*kept, *rows]:
        write_text(path, "\n".join(lines) + "\n")
