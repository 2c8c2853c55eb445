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
    there = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    new = {tuple(row[name] for name in same) for row in rows}
    kept = [row for row in there if tuple(row[name] for name in same) not in new]
    command = f"python -m {module} {shlex.join(sys.argv[1:])}"
    write_json(path, {"rows": kept + [row | {"command": command} for row in rows]})
