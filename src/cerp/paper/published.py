"""What the paper printed (Liang et al., ICDM 2023), as data: see published.json.

Beside it what public leaderboards have for the same data and split.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

Row = dict[str, Any]


@cache
def _published() -> dict[str, Any]:
    text = files("cerp.paper").joinpath("published.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def source() -> str:
    """Where the numbers are from."""
    return str(_published()["source"])


def bucket_count(dataset: str) -> int | None:
    """B of the paper's runs on a data set; None where it has none."""
    found: int | None = _published()["buckets"].get(dataset)
    return found


def published_rows(table: str, **wanted: Any) -> list[Row]:
    """The rows of ``table1``, ``table2``, ``table3`` or ``leaderboards`` with these values."""
    rows: list[Row] = _published()[table]
    return [row for row in rows if wanted.items() <= row.items()]
