"""Runs of a scaled SVD: vectors of items in books and codes, in a file without users."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import cerp
from cerp.artifact import decode, embedding_bytes, section_bytes
from cerp.config import Config, RunOptions
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import BudgetError, ConfigError
from cerp.methods import METHODS
from cerp.runs.fit import fit_all, load_run
from cerp.runs.fitted_model import FittedModel

CONFIG = Config(method="svd", budgets=("800", "2KB"))


@pytest.fixture(scope="module")
def splits() -> Splits:
    return synthetic(300, 200, 6000).split(seed=0)


@pytest.fixture(scope="module")
def finished(splits: Splits, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("svd") / "run"
    fit_all(splits, CONFIG, RunOptions(folder=folder, quiet=True))
    return folder


@pytest.fixture(scope="module")
def model(splits: Splits) -> FittedModel:
    return cerp.fit(splits, method="svd", max_file_size="6KB", verbose=False)


def test_every_budget_has_its_own_vectors_and_file(finished: Path, splits: Splits):
    by_count, by_bytes = load_run(finished, splits)
    assert by_count.facts.nnz <= by_count.limit == 800
    sections = section_bytes((finished / "model-2KB.cerp").read_bytes())
    assert embedding_bytes(sections) == by_bytes.facts.embedding_bytes <= 2000
    assert by_bytes.limit == by_bytes.facts.nnz
    for model in (by_count, by_bytes):
        # Without codebooks there is a row for each item.
        books, rows = model.facts.codebooks or 1, model.facts.buckets or splits.num_items
        assert model.facts.nnz == books * rows * model.facts.avg_dim
        assert cerp.artifact.usage(decode(model.file())).stored_values <= model.facts.nnz


def test_a_finished_run_is_read_and_nothing_is_searched_again(
    finished: Path, splits: Splits, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(METHODS["svd"], "find", None)
    written = json.loads((finished / "metrics.json").read_text())
    models = load_run(finished, splits)
    assert [model.facts.to_json() for model in models] == written["models"]
    for model in models:
        assert model.file() == (finished / f"model-{model.budget}.cerp").read_bytes()


def test_the_same_seed_gives_the_same_file(finished: Path, splits: Splits):
    again = fit_all(splits, CONFIG, RunOptions(quiet=True))
    for model in again:
        assert model.file() == (finished / f"model-{model.budget}.cerp").read_bytes()


def test_the_model_is_judged_as_its_file_is(splits: Splits, model: FittedModel, tmp_path: Path):
    path = tmp_path / "model.cerp"
    assert model.save(path) == model.facts.file_bytes <= 6_000
    runtime = cerp.load(path)
    assert runtime.is_item_only
    assert runtime.scoring == "dot product with the sum of one's items"
    for part in ("valid", "test"):
        found = cerp.evaluate(runtime, splits, on=part).mean
        assert found["ndcg@10"] == model.metrics[part]["ndcg@10"]
    assert model.facts.best_valid == model.metrics["valid"]["ndcg@10"]
    liked = splits.items.decode([3, 8])
    assert model.recommend_for(liked) == runtime.recommend_for(liked)
    with pytest.raises(ConfigError, match="items and no users"):
        model.recommend(0)


def test_a_list_is_by_the_products_of_sums(splits: Splits, model: FittedModel):
    runtime, file = cerp.Runtime(decode(model.file())), decode(model.file())
    vectors = file.embedding.vectors(np.arange(200, dtype=np.int32), 200).astype(np.float64)
    liked = [3, 8, 150]
    taste = sum(file.sums.weights[item] * vectors[item] for item in liked)
    scores = vectors @ taste
    scores[liked] = -np.inf
    best = np.argsort(-scores)[:5]
    found = runtime.recommend_for(splits.items.decode(liked), 5)
    assert [entry.item for entry in found] == splits.items.decode(best)
    assert [entry.score for entry in found] == pytest.approx(scores[best], rel=1e-6)


def test_a_larger_file_is_no_worse_on_validation_and_vectors_beat_popularity(splits: Splits):
    small, large = (
        cerp.fit(splits, method="svd", max_file_size=size, verbose=False)
        for size in ("4KB", "40KB")
    )
    assert small.facts.best_valid <= large.facts.best_valid
    popular = cerp.evaluate(cerp.evaluation.baselines.Popularity(splits.train), splits, on="valid")
    assert small.facts.best_valid > popular.mean["ndcg@10"]


def test_a_precision_that_was_asked_for_is_used(splits: Splits):
    model = cerp.fit(splits, method="svd", budget="99%", values="fp16", verbose=False)
    assert model.facts.values == "fp16"
    # 1% of 500 entities of dimension 128.
    assert model.facts.nnz <= model.limit == 640


def test_a_refit_has_vectors_of_validation_too(splits: Splits, model: FittedModel, tmp_path: Path):
    settings = {"method": "svd", "max_file_size": "6KB", "verbose": False}
    refitted = cerp.fit(splits, refit="train+valid", **settings)
    assert list(refitted.metrics) == ["test"]
    assert refitted.save(tmp_path / "model.cerp") <= 6_000
    found = cerp.evaluate(cerp.load(tmp_path / "model.cerp"), splits)
    assert found.mean["ndcg@10"] == refitted.metrics["test"]["ndcg@10"]
    assert refitted.file() != model.file()


def test_what_cannot_be_is_refused_with_what_to_do(splits: Splits, tmp_path: Path):
    options = RunOptions(folder=tmp_path / "run", quiet=True)
    with pytest.raises(BudgetError, match="too small for svd here: with the fewest values"):
        fit_all(splits, Config(method="svd", max_file_size="1KB"), options)
    assert not (tmp_path / "run").exists()
    with pytest.raises(BudgetError, match="no room for vectors of 200 items"):
        fit_all(splits, Config(method="svd", budgets=("50",)), RunOptions(quiet=True))
