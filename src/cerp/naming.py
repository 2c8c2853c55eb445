"""What things are called: values in files of tensors, the files of a run, one and many."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

_Value = TypeVar("_Value")


def counted(count: int, noun: str) -> str:
    """``1 user``, ``1,000 users``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def prefixed(prefix: str, values: Mapping[str, _Value], *, by: str = ".") -> dict[str, _Value]:
    """Every name as ``prefix.name``."""
    return {f"{prefix}{by}{name}": value for name, value in values.items()}


def under(prefix: str, values: Mapping[str, _Value], *, by: str = ".") -> dict[str, _Value]:
    """The values whose names begin with ``prefix.``, by the rest of their names."""
    start = f"{prefix}{by}"
    return {
        name.removeprefix(start): value for name, value in values.items() if name.startswith(start)
    }


def budget_file(folder: Path, kind: str, budget: str, suffix: str) -> Path:
    """Where a run keeps something of a budget: ``model-99pct.cerp``.

    A percent sign ends a command in a crontab, and a blank an argument in a shell. Folders of
    earlier runs have names with both; where only such a file is there, it is meant.
    """
    plain = folder / f"{kind}-{budget.replace('%', 'pct').replace(' ', '')}{suffix}"
    earlier = folder / f"{kind}-{budget}{suffix}"
    return earlier if earlier.exists() and not plain.exists() else plain


def model_file(folder: Path, budget: str) -> Path:
    """The model file of a budget in its run's folder."""
    return budget_file(folder, "model", budget, ".cerp")
