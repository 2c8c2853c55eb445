"""Figures of the examples as JSON, each row with the command that made it."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cerp.files import write_json


def add_rows(path: Path, rows: Sequence[dict[str, Any]], module: str, same: Sequence[str]) -> None:
    """Put rows in the place of those of a file that agree with them in the columns ``same``."""
    command = f"python -m {module} {shlex.join(sys.argv[1:])}"
    merge_rows(path, [row | {"command": command} for row in rows], same)


def merge_rows(path: Path, rows: Sequence[dict[str, Any]], same: Sequence[str]) -> None:
    """The same for rows with their commands; a row that names no seed has seed 0."""
    there = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    new = {_key(row, same) for row in rows}
    kept = [row for row in there if _key(row, same) not in new]
    write_json(path, {"rows": [*kept, *rows]})


def _key(row: dict[str, Any], same: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row.get(name, 0 if name == "seed" else None) for name in same)
