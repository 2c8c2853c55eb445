"""Which format a file has: by its name, and where that says nothing by its first lines."""

from __future__ import annotations

from pathlib import Path

from cerp.data.formats import text_files
from cerp.data.formats.base import FORMATS, format_of_suffix
from cerp.data.formats.columns import ITEM_NAMES, USER_NAMES, is_recognised
from cerp.data.formats.sniffing import DELIMITERS, regularity
from cerp.errors import DataError


def format_of_name(path: Path) -> str | None:
    """The format that a suffix stands for; None where the first lines must tell.

    Those are ``.txt``, and what an archive holds without any suffix, as pandas writes it.
    """
    name = text_files.inner_name(path) if text_files.is_compressed(path) else path.name
    suffix = Path(name).suffix.lower()
    if suffix == ".txt" or (not suffix and text_files.is_compressed(path)):
        return None
    found = format_of_suffix(suffix)
    if found is None:
        raise DataError(
            f"{path}: the suffix {suffix!r} says nothing about the format; "
            f"say it with format=: one of {', '.join(FORMATS.names())}"
        )
    return found


def format_of_text(head: str, path: Path) -> str:
    """Delimited or LightGCN, from the first lines of a ``.txt`` file."""
    if any(regularity(head, delimiter) == 1.0 for delimiter in DELIMITERS if delimiter != " "):
        return "csv"
    rows = [line.split() for line in head.splitlines() if line.strip()]
    widths = {len(row) for row in rows}
    if rows and any(is_recognised(name, (*USER_NAMES, *ITEM_NAMES)) for name in rows[0]):
        return "csv"
    if widths in ({3}, {4}):
        raise DataError(
            f"{path}: every line has {widths.pop()} columns: either 'user item rating' or "
            'LightGCN\'s \'user item item\'; say which with format="csv" or format="lightgcn"'
        )
    # With two columns both formats mean the same; with one, the error names it.
    return "csv" if widths <= {1} or widths == {2} else "lightgcn"
