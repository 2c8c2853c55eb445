"""What `cerp.read` says of a file, by one of the ways in which it can read it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import cerp
from cerp.data.formats.regular_text import RegularText
from cerp.errors import CerpError


@contextmanager
def without_cutting() -> Iterator[None]:
    """Regular files are read as all others are: tables by DuckDB."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RegularText, "read", lambda *_: None)
        yield


def told(path: Path, **options: Any) -> tuple[object, ...]:
    """What is read, or the error in words."""
    try:
        data = cerp.read(path, **options)
    except CerpError as error:
        return type(error), str(error)
    time = None if data.time is None else data.time.tolist()
    return (
        data.users.values.tolist(),
        data.items.values.tolist(),
        data.user.tolist(),
        data.item.tolist(),
        time,
        data.source,
        data.duplicates,
    )
