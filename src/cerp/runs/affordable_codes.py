"""Whether the codes that a preset would learn can be learned for data of this size."""

from __future__ import annotations

from cerp.assignment import code_rule
from cerp.choices import Assignment
from cerp.config import Config
from cerp.data.splits import Splits


def hash_instead(config: Config, wanted: Assignment | None, splits: Splits) -> str | None:
    """Why rows are hashed where a preset would learn them, in words; None: it may learn them.

    Parameters
    ----------
    config
        What would be trained.
    wanted
        The assignment that the caller asked for. What is asked for is not replaced: it is learned,
        or refused with an error.
    splits
        The data.

    """
    is_by_default = wanted is None and config.assignment == "learned" and config.codebooks is None
    if not is_by_default or config.teacher is not None:
        return None
    fewer = min(splits.num_users, splits.num_items)
    needed = code_rule.bytes_of_vectors(fewer)
    if needed <= code_rule.MEMORY:
        return None
    side = "items" if splits.num_items <= splits.num_users else "users"
    return (
        f"codebook rows are chosen by a hash: to learn them takes vectors of {fewer:,} {side}, "
        f"which need {needed:,} bytes, and {code_rule.MEMORY:,} are allowed. Nothing is to be "
        "done; for better rows leave out users and items with few interactions"
    )
