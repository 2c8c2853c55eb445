"""What a preset leaves to the data: whether codes can be learned, and who teaches, if anybody."""

from __future__ import annotations

from collections.abc import Callable

from cerp.assignment.code_rule import MEMORY, bytes_of_vectors
from cerp.choices import Assignment
from cerp.config import Config
from cerp.data.splits import Splits
from cerp.presets import PresetName, default_teacher

Build = Callable[[Assignment | None, str | None], Config]
"""The configuration of a preset with an assignment and a teacher, None: the preset's."""


def suited_to_data(
    build: Build,
    name: PresetName,
    wanted: Assignment | None,
    teacher: str | None,
    splits: Splits,
) -> tuple[Config, str | None]:
    """A preset's configuration for these data, and what to say of it, if anything.

    Parameters
    ----------
    build
        Makes the configuration.
    name
        Of the preset.
    wanted, teacher
        What the caller asked for; None: nothing.
    splits
        The data.

    """
    config = build(wanted, teacher)
    why = hash_instead(config, wanted, splits)
    if why is not None:
        wanted = "hash"
        config = build(wanted, teacher)
    if found := default_teacher(config, name, teacher, len(splits.train)):
        config = build(wanted, found)
    return config, why


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
    needed = bytes_of_vectors(fewer)
    if needed <= MEMORY:
        return None
    side = "items" if splits.num_items <= splits.num_users else "users"
    return (
        f"codebook rows are chosen by a hash: to learn them takes vectors of {fewer:,} {side}, "
        f"which need {needed:,} bytes, and {MEMORY:,} are allowed. Nothing is to be "
        "done; for better rows leave out users and items with few interactions"
    )
