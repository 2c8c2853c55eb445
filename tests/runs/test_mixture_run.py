"""Runs that put the graph filter beside trained vectors, where validation likes it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cerp
from cerp.artifact import decode
from cerp.config import Config, PruneConfig, RunOptions, TrainConfig
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError
from cerp.evaluation.evaluate import evaluate
from cerp.graph import filter_search
from cerp.graph.filter import Exponents
from cerp.graph.mixture import FoundMixture
from cerp.graph.search import FoundExponents
from cerp.graph.search_sharpening import FoundSharpening
from cerp.graph.sharpening import Sharpening
from cerp.runs import pipeline
from cerp.runs.encodings import every_encoding
from cerp.runs.fit import fit_all, load_run
from cerp.runs.mixing import mixture_facts, term_of_mixture

CONFIG = Config(
    backbone="lightgcn",
    budgets=("80%",),
    dim=8,
    ordering="degree",
    mix=True,
    prune=PruneConfig(epochs=1),
    train=TrainConfig(epochs=3, evaluate_every=1),
)
QUIET = RunOptions(quiet=True)


@pytest.fixture(scope="module")
def splits() -> Splits:
    return synthetic(300, 200, 6000).split(seed=0)


def always(*, helps: bool) -> Any:
    """The search of mixtures with its verdict replaced."""

    def facts(*given: Any, **named: Any) -> dict[str, Any]:
        return {**mixture_facts(*given, **named), "is_shipped": helps}

    return facts


@pytest.fixture(scope="module")
def finished(splits: Splits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixture") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "mixture_facts", always(helps=True))
        fit_all(splits, CONFIG, replace(QUIET, folder=folder))
    return folder


def test_the_file_judges_as_the_run_did_and_has_one_filter(finished: Path, splits: Splits):
    [facts] = json.loads((finished / "metrics.json").read_text())["models"]
    runtime = cerp.load(finished / "model-80pct.cerp")
    judged = evaluate(runtime, splits, on="test")
    assert judged.mean["ndcg@10"] == pytest.approx(facts["test"]["ndcg@10"], rel=1e-6)
    mixture = facts["search"]["mixture"]
    assert runtime.model.filter.mixing.beta == mixture["beta"]
    assert runtime.model.filter.exponents.q == mixture["q"]
    assert facts["valid"]["ndcg@10"] == pytest.approx(mixture["valid_ndcg@10"]["mixture"], rel=1e-6)


def test_a_finished_mixture_is_read_back(finished: Path, splits: Splits, monkeypatch):
    monkeypatch.setattr(pipeline, "mixture_facts", None)
    [model] = load_run(finished, splits)
    assert model.filter is not None
    assert model.file() == (finished / "model-80pct.cerp").read_bytes()
    users = np.arange(20, dtype=np.int32)
    scores = cerp.runtime.Runtime(decode(model.file())).score_all(users)
    np.testing.assert_allclose(model.score_all(users), scores, rtol=1e-4, atol=1e-4)
    written = every_encoding(model)
    assert all(decode(one.data).filter == model.filter for one in written if one.data)
    assert {one.graph for one in written} == {"edges", "tables"}


def test_a_mixture_below_one_of_its_parts_is_not_shipped(splits: Splits, monkeypatch):
    monkeypatch.setattr(pipeline, "mixture_facts", always(helps=False))
    [with_search] = fit_all(splits, CONFIG, QUIET)
    [plain] = fit_all(splits, replace(CONFIG, mix=False), QUIET)
    assert with_search.filter is None
    assert with_search.file() == plain.file()
    assert with_search.metrics == plain.metrics
    assert with_search.facts.search["mixture"]["is_shipped"] is False
    assert "mixture" not in (plain.facts.search or {})


@pytest.mark.parametrize(
    ("vectors", "filtered", "is_shipped"),
    [(0.1, 0.2, True), (0.3, 0.2, True), (0.31, 0.2, False), (0.1, 0.31, False)],
)
def test_validation_decides(splits: Splits, monkeypatch, vectors, filtered, *, is_shipped: bool):
    def search(*_: Any, **__: Any) -> FoundMixture:
        return FoundMixture(
            beta=2.0,
            epsilon=0.1,
            score=0.3,
            vectors_score=vectors,
            filter_score=filtered,
            helps=False,
            metric="ndcg@10",
            trials=(),
            seconds=1.0,
        )

    monkeypatch.setattr("cerp.runs.mixing.search_mixture", search)
    exponents = FoundExponents(Exponents(1, 1, 1), filtered, "ndcg@10", (), 2.0)
    facts = mixture_facts(splits, None, exponents, seed=0, quiet=True)
    assert facts["is_shipped"] is is_shipped
    assert facts["seconds"] == 3.0
    assert (term_of_mixture(facts) is not None) == is_shipped


def test_a_limit_of_the_file_holds_with_the_filter_in_it(splits: Splits, monkeypatch):
    monkeypatch.setattr(pipeline, "mixture_facts", always(helps=True))
    config = replace(CONFIG, max_file_size="9KB", budgets=("9KB",), value_precision="int8")
    [model] = fit_all(splits, config, QUIET)
    assert model.filter is not None
    assert len(model.file()) <= 9000
    judged = evaluate(cerp.runtime.Runtime(decode(model.file())), splits, on="test")
    assert judged.mean["ndcg@10"] == pytest.approx(model.metrics["test"]["ndcg@10"], rel=1e-6)


def test_what_has_no_vectors_or_no_graph_cannot_be_mixed(splits: Splits):
    with pytest.raises(ConfigError, match="needs vectors"):
        fit_all(splits, replace(CONFIG, method="filter"), QUIET)
    with pytest.raises(ConfigError, match="needs the training graph"):
        fit_all(splits, replace(CONFIG, backbone="mf", store_seen=False), QUIET)


# With the sharpened filter


def sharpening_that_helps(splits: Splits, plain: FoundExponents, **named: Any) -> FoundSharpening:
    """The search of a sharpening, in place of its verdict."""
    sharpening = Sharpening(0.75, 0.2, 2)
    return FoundSharpening(plain.exponents, sharpening, 0.2, 0.1, plain.metric, (), plain.seconds)


def test_the_sharpened_filter_is_put_beside_vectors(splits: Splits, monkeypatch, tmp_path: Path):
    monkeypatch.setattr(filter_search, "search_sharpening", sharpening_that_helps)
    monkeypatch.setattr(pipeline, "mixture_facts", always(helps=True))
    [model] = fit_all(splits, replace(CONFIG, mix="sharp"), replace(QUIET, folder=tmp_path / "run"))
    shipped = decode(model.file())
    assert shipped.filter.sharpening == Sharpening(0.75, 0.2, 2)
    assert model.facts.search["mixture"]["times"] == 2
    judged = evaluate(cerp.runtime.Runtime(shipped), splits, on="valid").mean["ndcg@10"]
    assert judged == pytest.approx(model.metrics["valid"]["ndcg@10"], rel=1e-6)
    [again] = load_run(tmp_path / "run", splits)
    assert again.filter == shipped.filter


def test_the_plain_filter_is_not_sharpened(splits: Splits, monkeypatch):
    monkeypatch.setattr(filter_search, "search_sharpening", None)
    monkeypatch.setattr(pipeline, "mixture_facts", always(helps=True))
    [model] = fit_all(splits, CONFIG, QUIET)
    assert model.filter.sharpening is None
