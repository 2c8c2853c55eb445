"""Files are written whole or not at all: under a temporary name, then renamed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from cerp.errors import OutputError


def write_bytes(path: Path, payload: bytes) -> None:
    """Write bytes and flush them to disk; an older file stays until all is there."""
    scratch = path.with_name(f".{path.name}.writing")
    try:
        with scratch.open("wb") as file:
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise OutputError(
            f"cannot write {path}: {error.strerror}; what was there before is intact. "
            "Free some space or choose another place, and try again"
        ) from error


def write_text(path: Path, text: str) -> None:
    """Write text in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write JSON for programs and eyes."""
    write_text(path, json.dumps(value, indent=1) + "\n")
