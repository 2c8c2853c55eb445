"""The LightGCN text format: one line per user, ``user item item ...``.

The lingua franca of collaborative-filtering benchmarks, and how cerp saves a
split. Needs nothing but NumPy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.errors import DataError


def parse(path: Path) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """The user and item columns of a file, and every user that has a line.

    A line may name a user without items (common in test files): that user is
    in the third array only. All three are int64 if every token of the file is
    a plain integer; otherwise users or items, whichever is not, are strings.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text (byte {error.start})") from None
    rows = [line.split() for line in lines]
    filled = [row for row in rows if row]
    if not filled:
        raise DataError(f"{path}: the file is empty")
    line_users = _ids([row[0] for row in filled], path, "user")
    lengths = np.array([len(row) - 1 for row in filled])
    items = _ids([token for row in filled for token in row[1:]], path, "item")
    return np.repeat(line_users, lengths), items, line_users


def write(path: Path, user: npt.NDArray[np.int32], item: npt.NDArray[np.int32]) -> None:
    """Write codes that are sorted by user; users without items get no line."""
    starts = np.flatnonzero(np.diff(user, prepend=-1))
    with path.open("w", encoding="ascii") as file:
        for items, who in zip(np.split(item, starts[1:]), user[starts].tolist(), strict=True):
            file.write(f"{who} {' '.join(map(str, items.tolist()))}\n")


def _ids(tokens: list[str], path: Path, what: str) -> npt.NDArray[Any]:
    """Tokens as int64 where all are plain integers, else as they stand."""
    if not all(token.isascii() and token.lstrip("-").isdigit() for token in tokens):
        return np.array(tokens, dtype=object)
    if any(token != "0" and token.lstrip("-").startswith("0") for token in tokens):
        return np.array(tokens, dtype=object)  # 007 is not 7
    try:
        numbers = np.array(tokens, dtype=np.int64)
    except OverflowError:
        longest = max(tokens, key=len)
        raise DataError(f"{path}: {what} id {longest} does not fit into 64 bits") from None
    if numbers.size and numbers.min() < 0:
        raise DataError(f"{path}: {what} id {numbers.min()} is negative; ids start at 0")
    return numbers
