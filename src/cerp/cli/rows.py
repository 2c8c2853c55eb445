"""What became of the rows of a source."""

from __future__ import annotations

from cerp.cli.output import print_note
from cerp.data.splits import PARTS, Splits

WORTH_A_NOTE = 0.1
"""Share of the rows; below it, that some are merged is no surprise."""


def merged_rows(splits: Splits) -> int:
    """Rows that repeated an earlier pair, or whose user or item fell out."""
    source = splits.train.source
    assert source is not None
    kept = sum(len(splits.part(name)) for name in PARTS)
    return source.rows - source.left_out - kept


def note_merged(splits: Splits) -> None:
    """Say so where many rows were merged: how often a pair occurs is not learned from."""
    source = splits.train.source
    if source is None:
        return
    merged, used = merged_rows(splits), source.rows - source.left_out
    if merged > WORTH_A_NOTE * used:
        print_note(
            "note",
            f"{used:,} rows are {used - merged:,} interactions: a pair that occurs again counts "
            "once (cerp data info says more)",
        )
