"""Runs that put the graph filter beside a scaled SVD, where validation likes it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cerp
from cerp.artifact import decode, section_bytes
from cerp.config import Config, RunOptions
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import BudgetError, ConfigError
from cerp.graph import filter_search
from cerp.graph.mixture import FoundMixture
from cerp.graph.search import FoundExponents
from cerp.graph.search_sharpening import FoundSharpening
from cerp.graph.sharpening import Sharpening
from cerp.methods import METHODS
from cerp.runs import pipeline
from cerp.runs.fit import fit_all, load_run
from cerp.runs.mixing import mixture_facts

CONFIG = Config(method="svd", budgets=("16KB",), max_file_size="16KB", mix="sharp")
SHARPENING = Sharpening(0.75, 0.2, 2)
QUIET = RunOptions(quiet=True)


@pytest.fixture(scope="module")
def splits() -> Splits:
    return synthetic(300, 200, 6000).split(seed=0)


def always(*, helps: bool) -> Any:
    """The search of mixtures with its verdict replaced."""

    def facts(*given: Any, **named: Any) -> dict[str, Any]:
        return {**mixture_facts(*given, **named), "is_shipped": helps}

    return facts


def sharpening_that_helps(splits: Splits, plain: FoundExponents, **named: Any) -> FoundSharpening:
    """The search of a sharpening, in place of its verdict."""
    return FoundSharpening(plain.exponents, SHARPENING, 0.2, 0.1, plain.metric, (), plain.seconds)


@pytest.fixture(scope="module")
def finished(splits: Splits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("svd-mixture") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "mixture_facts", always(helps=True))
        patch.setattr(filter_search, "search_sharpening", sharpening_that_helps)
        fit_all(splits, CONFIG, replace(QUIET, folder=folder))
    return folder


def test_the_file_has_the_graph_and_judges_as_the_run_did(finished: Path, splits: Splits):
    [facts] = json.loads((finished / "metrics.json").read_text())["models"]
    runtime, mixture = cerp.load(finished / "model-16KB.cerp"), facts["search"]["mixture"]
    model = runtime.model
    assert model.filter.sharpening == SHARPENING
    assert (model.filter.mixing.beta, model.filter.mixing.epsilon) == (
        mixture["beta"],
        mixture["epsilon"],
    )
    assert runtime.scoring == (
        "dot product with the sum of one's items, with sharpened graph filter"
    )
    assert not runtime.is_item_only
    assert facts["file_bytes"] == (finished / "model-16KB.cerp").stat().st_size <= 16_000
    assert "popularity" not in section_bytes((finished / "model-16KB.cerp").read_bytes())
    for part in ("valid", "test"):
        judged = cerp.evaluate(runtime, splits, on=part).mean["ndcg@10"]
        assert judged == facts[part]["ndcg@10"]
    # β and ε were chosen by float32 products of the same vectors.
    assert mixture["valid_ndcg@10"]["mixture"] == pytest.approx(facts["valid"]["ndcg@10"], rel=1e-4)


def test_someone_new_gets_what_a_user_with_the_same_items_gets(finished: Path):
    runtime = cerp.load(finished / "model-16KB.cerp")
    for user in (3, 77, 204):
        assert runtime.recommend_for(runtime.seen(user)) == runtime.recommend(user)


def test_a_finished_mixture_is_read_and_nothing_is_searched_again(
    finished: Path, splits: Splits, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(METHODS["svd"], "find", None)
    monkeypatch.setattr(pipeline, "mixture_facts", None)
    [model] = load_run(finished, splits)
    written = json.loads((finished / "metrics.json").read_text())
    assert [model.facts.to_json()] == written["models"]
    assert model.file() == (finished / "model-16KB.cerp").read_bytes()
    assert model.recommend(5) == cerp.load(finished / "model-16KB.cerp").recommend(5)


def test_vectors_alone_are_shipped_where_validation_puts_the_sum_below_them(
    splits: Splits, monkeypatch: pytest.MonkeyPatch
):
    def search(*_: Any, **__: Any) -> FoundMixture:
        return FoundMixture(2.0, 0.1, 0.3, 0.31, 0.2, False, "ndcg@10", (), 1.0)

    monkeypatch.setattr("cerp.runs.mixing.search_mixture", search)
    [model] = fit_all(splits, replace(CONFIG, mix=True), QUIET)
    assert model.filter is None
    assert decode(model.file()).is_item_only
    assert model.facts.search["mixture"]["is_shipped"] is False


def test_a_refit_keeps_what_was_chosen_before_it(splits: Splits, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pipeline, "mixture_facts", always(helps=True))
    [first] = fit_all(splits, replace(CONFIG, mix=True), QUIET)
    [refitted] = fit_all(splits, replace(CONFIG, mix=True, refit="train+valid"), QUIET)
    assert refitted.filter == first.filter
    assert list(refitted.metrics) == ["test"]
    file = decode(refitted.file())
    assert len(file.seen.items) == len(splits.train) + len(splits.valid)
    assert len(refitted.file()) <= 16_000
    judged = cerp.evaluate(cerp.Runtime(file), splits).mean["ndcg@10"]
    assert judged == refitted.metrics["test"]["ndcg@10"]


def test_what_cannot_be_is_refused_with_what_to_do(splits: Splits):
    with pytest.raises(BudgetError, match=r"too small for svd here: .* for header, the graph"):
        fit_all(splits, replace(CONFIG, max_file_size="3KB"), QUIET)
    with pytest.raises(ConfigError, match="nothing is learned together"):
        fit_all(splits, replace(CONFIG, mix="together"), QUIET)
    with pytest.raises(ConfigError, match="needs the training graph"):
        fit_all(splits, replace(CONFIG, store_seen=False), QUIET)
    with pytest.raises(ConfigError, match="leave out item_only=True"):
        fit_all(splits, replace(CONFIG, item_only=True), QUIET)
    with pytest.raises(ConfigError, match="needs vectors"):
        fit_all(splits, replace(CONFIG, method="neighbours"), QUIET)
