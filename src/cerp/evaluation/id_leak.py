"""Does the numbering of users or items give test interactions away?

Ids are usually numbered by first appearance in the full log, test included.
Two recommenders that know nothing but the numbering measure how much that
tells: one by items with nearby codes, one by users with nearby codes. Each is
judged with the codes as they are and once more with the codes shuffled. What
shuffling takes away is what the numbering gave.
"""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from cerp.data.ids import Ids, Int32Array
from cerp.data.interactions import Interactions
from cerp.data.splits import Part, Splits
from cerp.errors import ConfigError
from cerp.evaluation.baselines import ItemWindow, UserWindow
from cerp.evaluation.evaluate import LEAST_SAMPLE, Scorer, evaluate, users_to_judge
from cerp.evaluation.metrics import Metrics

CLEARLY_HIGHER = 2.0
MATERIAL = 0.005
STANDARD_ERRORS = 3.0
MOST_SCORES = 2 * 10**9
"""Up to so many scores, users times items, everybody is judged under each numbering. Beyond it a
sample of thousands tells as well: its standard error is part of the rule."""


@dataclass(frozen=True)
class WindowScores:
    """NDCG@10 of one window recommender under both numberings."""

    native: float
    shuffled: float
    standard_error: float
    """Of ``native - 2 * shuffled``, over users."""

    @property
    def leaks(self) -> bool:
        """Whether native codes are clearly better than shuffled ones.

        ``native > 2 * shuffled + max(.005, 3 standard errors)``. The factor:
        even shuffled neighbours score above zero, for popular items are in
        every neighbourhood, and small differences between two such scores mean
        nothing. The .005: below it the numbering cannot decide a comparison.
        The standard errors: on a few hundred users .005 is noise.
        """
        margin = max(MATERIAL, STANDARD_ERRORS * self.standard_error)
        return self.native > CLEARLY_HIGHER * self.shuffled + margin


@dataclass(frozen=True)
class LeakReport:
    """What the numbering of each side gives away."""

    on: Part
    window: int
    item_window: WindowScores
    user_window: WindowScores
    users: int
    """How many were judged under each numbering."""
    users_with_truth: int
    """How many could have been."""

    @property
    def warnings(self) -> list[str]:
        """One sentence for each side that leaks; empty when the numbering is harmless."""
        sides: tuple[tuple[Literal["user", "item"], WindowScores], ...] = (
            ("user", self.user_window),
            ("item", self.item_window),
        )
        return [self._warning(side, scores) for side, scores in sides if scores.leaks]

    def _warning(self, side: Literal["user", "item"], scores: WindowScores) -> str:
        meaning = (
            f"the numbering of users gives {self.on} interactions away: users with nearby ids "
            "take the same items"
            if side == "user"
            else f"the numbering of items gives {self.on} interactions away: items with nearby "
            "ids are taken by the same users"
        )
        return (
            f"{meaning}. Recommending by {side} ids within {self.window} of each other, with no "
            f"training at all, reaches NDCG@10 {scores.native:.4f}; with shuffled ids "
            f"{scores.shuffled:.4f}. A model that sees the numbering is credited for reading it: "
            "do not use native order; cerp's spectral or shuffled orderings are safe."
        )

    def summary(self) -> dict[str, Any]:
        """All figures and warnings, ready for JSON."""
        sides = {"item_window": self.item_window, "user_window": self.user_window}
        return {
            "on": self.on,
            "window": self.window,
            "users": self.users,
            "users_with_truth": self.users_with_truth,
            **{name: asdict(scores) | {"leaks": scores.leaks} for name, scores in sides.items()},
            "warnings": self.warnings,
        }


def id_leak(
    splits: Splits,
    *,
    window: int = 7,
    seed: int = 0,
    on: Part = "test",
    judge_users: int | None = None,
    quiet: bool = True,
) -> LeakReport:
    """Measure what native codes tell about a part, against codes shuffled by the seed.

    Parameters
    ----------
    splits
        The data; codes are in native order (see `cerp.data.ids.Ids`).
    window
        Codes at most so far apart are neighbours.
    seed
        Of the shuffled codes.
    on
        The part that may be given away, ``"test"`` or ``"valid"``.
    judge_users
        Judge a sample of so many users; None: everybody, or, where users times items are more than
        2 billion, a fixed sample of ``max(1000, 2·10^9 / number of items)``.
    quiet
        Show no progress where it takes long.

    Returns
    -------
    LeakReport
        NDCG@10 of both window recommenders under both numberings, and a warning for each side
        that leaks.

    """
    if window < 1:
        raise ConfigError(f"the window must be at least 1 id wide, got {window}")

    if judge_users is None:
        judge_users = max(LEAST_SAMPLE, MOST_SCORES // splits.num_items)
    places = itertools.count(1)

    def judged(scorer: Scorer, data: Splits) -> Metrics:
        users = users_to_judge(data, on, judge_users)
        label = None if quiet else f"nearby ids, {next(places)} of 4"
        return evaluate(scorer, data, on=on, ks=(10,), users=users, label=label)

    rng = np.random.default_rng(seed)
    items, users = (rng.permutation(n) for n in (splits.num_items, splits.num_users))
    by_item = judged(ItemWindow(splits.train, window), splits)
    by_user = judged(UserWindow(splits.train, window), splits)
    # One after the other: each is a copy of all interactions.
    other = _renumbered(splits, items=items.astype(np.int32))
    item_window = _compared(by_item, judged(ItemWindow(other.train, window), other))
    del other
    other = _renumbered(splits, users=users.astype(np.int32))
    user_window = _compared(by_user, judged(UserWindow(other.train, window), other))
    return LeakReport(
        on=on,
        window=window,
        users=len(by_item.users),
        users_with_truth=by_item.users_with_truth,
        item_window=item_window,
        user_window=user_window,
    )


def _compared(native: Metrics, shuffled: Metrics) -> WindowScores:
    first, second = native.per_user["ndcg@10"], shuffled.per_user["ndcg@10"]
    variance = first.var() / len(first) + CLEARLY_HIGHER**2 * second.var() / len(second)
    return WindowScores(float(first.mean()), float(second.mean()), float(np.sqrt(variance)))


def _renumbered(
    splits: Splits,
    *,
    users: Int32Array | None = None,
    items: Int32Array | None = None,
) -> Splits:
    """The same split with new codes: what was u is now ``users[u]``, likewise items."""
    user_ids, item_ids = Ids.range(splits.num_users), Ids.range(splits.num_items)

    def moved(part: Interactions) -> Interactions:
        user = part.user if users is None else users[part.user]
        item = part.item if items is None else items[part.item]
        return Interactions.from_codes(user, item, users=user_ids, items=item_ids)

    return Splits(moved(splits.train), moved(splits.valid), moved(splits.test))
