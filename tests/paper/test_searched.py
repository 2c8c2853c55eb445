from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from cerp.paper import searched
from cerp.paper.planning import plan
from cerp.paper.recipe import Recipe, RecipeRun
from cerp.paper.searched import best_by_budget, best_settings, searched_settings
from cerp.presets import preset

RESULTS = Path(__file__).parents[2] / "results"
SLOW, FAST = {"train.learning_rate": 1e-3}, {"train.learning_rate": 1e-2}


def search(slow: float | None, fast: float | None, budget: str = "99%") -> dict[str, Any]:
    trials = [
        {"settings": SLOW, "valid_ndcg@10": slow},
        {"settings": FAST, "valid_ndcg@10": fast},
    ]
    return {"budget": budget, "valid_ndcg@10": max(slow or 0, fast or 0), "trials": trials}


def test_the_best_trial_of_one_search_wins():
    assert best_settings([search(0.02, 0.01)]) == SLOW


def test_each_budget_has_the_same_say():
    # Shares of the best: slow 0.5 and 1, fast 1 and 0.8. The plain mean would prefer slow.
    assert best_settings([search(0.01, 0.02), search(0.2, 0.16)]) == FAST


def test_a_trial_that_diverged_counts_as_nothing():
    assert best_settings([search(0.01, None), search(0.09, 0.1)]) == SLOW


@pytest.mark.parametrize(("slow", "used"), [(0.095, SLOW), (0.094, FAST)])
def test_settings_of_the_first_budget_serve_where_they_reach_95_percent(
    slow: float, used: dict[str, Any]
):
    found = best_by_budget([search(0.02, 0.01), search(slow, 0.1, budget="90%")])
    assert found["99%"] == SLOW
    assert found["90%"] == used


@pytest.fixture
def settings_of_ud(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"gowalla": {"mlp": {"ud": {"90%": FAST, "99%": SLOW, "any": FAST}}}}
    monkeypatch.setattr(searched, "_searched", lambda: found)


@pytest.mark.usefixtures("settings_of_ud")
@pytest.mark.parametrize(
    ("budget", "rate"),
    # Kept are 8%, 5%, 2% and 0.5%; ratios count, so the border is at √(10% · 1%) = 3.2%.
    [("92%", 1e-2), ("95%", 1e-2), ("98%", 1e-3), ("99.5%", 1e-3), ("400KB", 1e-2), ("5000", 1e-2)],
)
def test_the_nearest_budget_that_was_searched_gives_the_settings(budget: str, rate: float):
    # UD with the MLP has more epochs than its preset, too.
    expected = {"train": {"learning_rate": rate, "epochs": 300}}
    assert searched_settings("gowalla", "ud", "mlp", budget) == expected


def test_what_compresses_the_full_table_trains_it_as_full_size_is_trained_best():
    best = searched_settings("gowalla", "full", "lightgcn", "99%")
    assert best["train"]["optimizer"] == "adamw"
    for method in ("pca", "pq", "opq", "rq"):
        assert searched_settings("gowalla", method, "lightgcn", "400KB") == best
    assert searched_settings("gowalla", "cce", "mlp", "99%") == {}


def planned(dataset: str, backbone: str, *, is_searched: bool = True) -> list[tuple[Any, ...]]:
    """Rates and the budgets they are for."""
    budgets, runs = ("90%", "95%", "99%"), (RecipeRun("ud"),)
    recipe = Recipe("made-up", "Made up", "methods", "", budgets, (backbone,), runs)
    jobs = [one.job for one in plan(replace(recipe, searched=is_searched), dataset)]
    return [(job.config.train.learning_rate, *job.budgets) for job in jobs if job.config]


@pytest.mark.usefixtures("settings_of_ud")
def test_a_recipe_uses_what_was_searched_for_data_method_backbone_and_budget():
    assert planned("gowalla", "mlp") == [(1e-2, "90%", "95%"), (1e-3, "99%")]
    for unsearched in (
        planned("gowalla", "mlp", is_searched=False),
        planned("gowalla", "lightgcn"),
        planned("lastfm", "mlp"),
    ):
        assert unsearched == [(5e-3, "90%", "95%", "99%")]


def test_a_run_may_have_fewer_budgets_than_its_recipe():
    runs = (RecipeRun("ud", budgets=["95%"]), RecipeRun("qr"))
    recipe = Recipe("made-up", "Made up", "methods", "", ("90%", "95%"), ("mf",), runs)
    assert [one.job.budgets for one in plan(recipe, "lastfm")] == [("95%",), ("90%", "95%")]


@pytest.mark.parametrize("dataset", ["gowalla", "lastfm"])
def test_settings_in_use_are_the_best_that_were_measured(dataset: str):
    figures = json.loads((RESULTS / dataset / "search.json").read_text())

    def asked(entry: dict[str, Any]) -> tuple[str, str]:
        return entry["method"], entry["backbone"]

    def measured(part: str) -> dict[tuple[str, str], dict[str, Any]]:
        groups = groupby(sorted(figures.get(part, []), key=asked), key=asked)
        return {key: best_by_budget(list(found)) for key, found in groups}

    # Budgets that were not searched again keep what an earlier search had.
    now, before = measured("searches"), measured("earlier")
    for backbone, methods in figures["best"].items():
        for method, settings in methods.items():
            if (method, backbone) != ("full", "lightgcn"):  # which has a longer search
                key = method, backbone
                assert settings == before.get(key, {}) | now.get(key, {})
    in_use = json.loads(files("cerp.paper").joinpath("searched.json").read_text("utf-8"))
    assert in_use[dataset] == figures["best"]


def test_full_size_has_the_shortest_of_the_best_settings_of_its_own_search():
    trials = json.loads((RESULTS / "gowalla" / "full_size.json").read_text())["trials"]
    ranked = sorted(trials, key=lambda trial: trial["valid_ndcg@10"], reverse=True)
    # 300 epochs and 250 epochs; the next one is behind by half a percent.
    assert [trial["valid_ndcg@10"] for trial in ranked[:3]] == [0.10116, 0.10113, 0.10067]
    shorter = ranked[1]["settings"]
    assert shorter["epochs"] == 250

    in_use = searched_settings("gowalla", "full", "lightgcn", "full")["train"]
    assert in_use.items() <= shorter.items()
    assert in_use.keys() >= {"optimizer", "learning_rate", "weight_decay", "schedule", "epochs"}


def test_hashed_and_learned_rows_have_searches_of_their_own_and_the_papers_preset_none(
    monkeypatch: pytest.MonkeyPatch,
):
    by_method = {
        "cerp-hash": {"99%": FAST, "any": FAST},
        "cerp-learned": {"99%": SLOW, "any": SLOW},
    }
    monkeypatch.setattr(searched, "_searched", lambda: {"gowalla": {"lightgcn": by_method}})
    runs = (RecipeRun("cerp"), RecipeRun("cerp-learned"), RecipeRun("cerp", preset="paper"))
    made = Recipe("made-up", "Made up", "methods", "", ("99%",), ("lightgcn",), runs, searched=True)
    configs = [one.job.config for one in plan(made, "gowalla")]
    assert [config.train.learning_rate for config in configs[:2]] == [1e-2, 1e-3]
    assert [config.assignment for config in configs] == ["hash", "learned", "hash"]
    assert configs[2].train == preset("paper", "lightgcn").train, "the paper's preset is as it was"


def test_the_papers_preset_trains_lightgcn_as_its_search_of_batches_says():
    runs = json.loads((RESULTS / "regularizer.json").read_text())["runs"]
    scores: dict[tuple[float, int], float] = {}
    for run in runs:
        rate, size = (
            run["settings"].get(f"train.{name}") for name in ("learning_rate", "batch_size")
        )
        if run["part"] == "open" and size and "train.epochs" not in run["settings"]:
            by_budget = [row["valid_ndcg@10"] for row in run["budgets"].values()]
            scores[rate, size] = sum(by_budget) / len(by_budget)
    training = preset("paper", "lightgcn").train
    assert training.batch_size is not None
    chosen = training.learning_rate, training.batch_size
    # Half the batch is the best there, by less than one seed can tell, for twice the time.
    assert max(scores, key=scores.__getitem__) == (chosen[0], chosen[1] // 2)
    assert sorted(scores, key=scores.__getitem__)[-2] == chosen
    assert max(scores.values()) - scores[chosen] < 1e-4
