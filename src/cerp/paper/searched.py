"""Learning rates and weight decays that were searched for the methods CERP is compared with.

``benchmarks/search.py`` runs `cerp tune` for each method and backbone and keeps all trials in
``results/<dataset>/search.json``; the best ones are in ``searched.json``, which recipes use.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from cerp.budget import percent_of
from cerp.comparison.metrics import MAIN_METRIC
from cerp.comparison.variants import nested
from cerp.presets import OF_FULL_SIZE

Settings = dict[str, Any]
"""Such as ``{"train.learning_rate": 0.01}``."""
ANY = "any"
"""For budgets that are no share of the full table."""
SCORE = f"valid_{MAIN_METRIC}"
"""Of a trial, and of the best of a search."""
GOOD_ENOUGH = 0.95
"""Settings of another budget serve where they reach so much of the best score."""

STILL_RISING = (("ud", "mlp"), ("full", "mlp"))
"""Methods and backbones whose validation figure still rose when the preset's epochs were over: they
are trained until it does not, or for `MOST_EPOCHS`."""
EPOCHS, MOST_EPOCHS = "train.epochs", 300


def searched_settings(dataset: str, method: str, backbone: str, budget: str) -> Settings:
    """Entries of `Config` that a search found; none where nothing was searched.

    Those of `STILL_RISING` have more epochs beside.

    Those of the searched budget whose share of kept values is nearest, as a ratio: 95%
    takes after 90%, not after 99%.
    """
    of_dataset: dict[str, dict[str, dict[str, Settings]]] = _searched().get(dataset, {})
    searched = of_dataset.get(backbone, {})
    by_budget = searched.get(method)
    if by_budget is None and method in OF_FULL_SIZE:
        by_budget = searched.get("full")  # what it compresses is to be the best that there is
    if by_budget is None:
        return {}
    longer = {EPOCHS: MOST_EPOCHS} if (method, backbone) in STILL_RISING else {}
    percent = percent_of(budget)
    if percent is None:
        return nested(by_budget[ANY] | longer)

    def distance(at: float) -> float:
        return abs(math.log((100 - at) / (100 - percent)))

    percents = {percent_of(at): found for at, found in by_budget.items()}
    nearest = min((one for one in percents if one is not None), key=distance)
    return nested(percents[nearest] | longer)


def best_by_budget(searches: Sequence[Mapping[str, Any]]) -> dict[str, Settings]:
    """Of the searches of one method and backbone, as `tune` gives them: settings by budget.

    Those of the first search serve at the other budgets too, unless they are
    clearly worse there than the best of the budget's own search.
    """
    first = best_settings(searches[:1])
    own = {search["budget"]: best_settings([search]) for search in searches}
    serves = {search["budget"]: _share(search, first) >= GOOD_ENOUGH for search in searches}
    found = {budget: first if serves[budget] else best for budget, best in own.items()}
    return found | {ANY: best_settings(searches)}


def best_settings(searches: Sequence[Mapping[str, Any]]) -> Settings:
    """The settings with the largest mean of ``score / best score of the search``.

    So each search has the same say. A trial that could not be trained counts as 0.
    """
    tried = [trial["settings"] for trial in searches[0]["trials"]]
    best: Settings = max(tried, key=lambda one: sum(_share(search, one) for search in searches))
    return best


def _share(search: Mapping[str, Any], settings: Settings) -> float:
    """Of the best score of the search; 0 for settings that it did not try."""
    scores = (trial[SCORE] for trial in search["trials"] if trial["settings"] == settings)
    return max((score or 0.0 for score in scores), default=0.0) / float(search[SCORE])


@cache
def _searched() -> dict[str, Any]:
    text = files("cerp.paper").joinpath("searched.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
