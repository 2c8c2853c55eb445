"""A search of several settings by validation: one after the other goes up or down its ladder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

Settings = TypeVar("Settings", bound=Any)


def climbed(
    start: Settings,
    ladders: Mapping[str, Sequence[Any]],
    judge: Callable[[Settings], float],
    *,
    rounds: int,
) -> Settings:
    """The settings that no step of a single one makes better, or those after so many rounds.

    Each setting in turn goes up its ladder as long as the figure rises, or else down; of equal
    figures the earlier one stays. A round that changes nothing ends the search.

    Parameters
    ----------
    start
        A dataclass; each setting of ``ladders`` has a value of its ladder.
    ladders
        What settings are chosen from, in the order in which they are looked at.
    judge
        The figure of some settings. Asked more than once about the same ones.
    rounds
        Passes over all settings at most.

    """
    found = start
    for _ in range(rounds):
        before = found
        for name, ladder in ladders.items():
            found = _along(found, name, ladder, judge)
        if found == before:
            break
    return found


def _along(
    found: Settings, name: str, ladder: Sequence[Any], judge: Callable[[Settings], float]
) -> Settings:
    for step in (1, -1):
        at = ladder.index(getattr(found, name)) + step
        moved = False
        while 0 <= at < len(ladder):
            other = replace(found, **{name: ladder[at]})
            if judge(other) <= judge(found):
                break
            found, moved, at = other, True, at + step
        if moved:
            break
    return found
