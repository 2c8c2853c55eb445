"""JSON with a checksum of itself: what was changed, or damaged, is not taken for a product."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from cerp.errors import DataError
from cerp.files import write_json

SEAL = "sha256"


def write_sealed(path: Path, values: dict[str, Any]) -> None:
    """Write an object, and as its last entry a checksum of the others."""
    plain = json.loads(json.dumps(values))
    write_json(path, {**plain, SEAL: _digest(plain)})


def read_sealed(path: Path) -> dict[str, Any]:
    """What `write_sealed` wrote."""
    values = read_json(path)
    if values.pop(SEAL, None) != _digest(values):
        raise DataError(
            f"{path} is not as it was written: its checksum does not fit; was it changed? "
            "Put it back, or train again into another folder"
        )
    return values


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object that a run wrote."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read ({error})") from None
    if not isinstance(found, dict):
        raise DataError(f"{path} is not what a run writes; was it changed?")
    return found


def _digest(values: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode("ascii")).hexdigest()
