"""Tampered folders of runs through loading, resuming and the report: an error of ours, or work."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import cerp
from campaigns.harness import Campaign
from campaigns.kills import CONFIG
from cerp.config import RunOptions
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import CerpError
from cerp.runs.fit import fit_all, load_run

ODD: tuple[Any, ...] = (None, True, -1, 10**400, "x", [], {}, {"a": [1]}, float("nan"), 2**63)


def attack(campaign: Campaign) -> None:
    """Each tampered folder is a case."""
    rng, splits = campaign.rng, synthetic(30, 20, 200).split(seed=0)
    with tempfile.TemporaryDirectory() as place:
        whole, run = Path(place) / "whole", Path(place) / "run"
        fit_all(splits, CONFIG, RunOptions(folder=whole, quiet=True))
        names = sorted(path.name for path in whole.iterdir() if path.name != ".lock")
        for _ in campaign.rounds():
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(whole, run)
            name = rng.choice(names)
            _tamper(run / name, rng)
            problem = _use(run, splits, rng)
            campaign.check(problem is None, f"{name}: {problem}")


def _tamper(path: Path, rng: Random) -> None:
    """A file that is damaged, shortened, missing, another, or no file at all."""
    content = bytearray(path.read_bytes())
    kind = rng.randrange(6)
    if kind == 0 and path.suffix in (".json", ".jsonl"):
        path.write_text(_changed_json(bytes(content), rng), encoding="utf-8")
    elif kind <= 1:
        for _ in range(rng.randint(1, 3)):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
    elif kind == 2:
        path.write_bytes(content[: rng.randrange(len(content))])
    else:
        path.unlink()
        if kind == 4:
            path.mkdir()
        elif kind == 5:
            path.symlink_to("/nowhere")


def _changed_json(content: bytes, rng: Random) -> str:
    lines = content.decode().splitlines() if content.count(b"\n") > 1 else [content.decode()]
    try:
        value = json.loads(content)
    except ValueError:
        value = json.loads(lines[0])
    return json.dumps(_with_change(value, rng)) + "\n"


def _with_change(value: Any, rng: Random) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        return value | {key: _with_change(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = rng.randrange(len(value))
        return [*value[:place], _with_change(value[place], rng), *value[place + 1 :]]
    return rng.choice(ODD)


def _use(run: Path, splits: Splits, rng: Random) -> str | None:
    """What went wrong in a way that nobody foresaw; None: nothing."""
    uses: dict[str, Callable[[], object]] = {
        "loading": lambda: load_run(run, splits),
        "the report": lambda: cerp.report(run, run.parent / "report.html", splits),
        "resuming": lambda: fit_all(
            splits, CONFIG, RunOptions(folder=run, resume=True, quiet=True)
        ),
    }
    for what, use in uses.items():
        try:
            use()
        except CerpError:
            continue
        except Exception as error:
            return f"{what}: {type(error).__name__}: {error}"
    return None
