"""ALS: its objective, its search, and runs of it as a method and as a teacher."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

import cerp
from cerp.artifact import Encoding, decode, section_bytes
from cerp.cli import app
from cerp.comparison.jobs import plan
from cerp.comparison.variants import chosen_names
from cerp.config import RunOptions
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import BudgetError, ConfigError, MissingExtra
from cerp.evaluation.evaluate import evaluate
from cerp.methods.als.search import AlsSearch, DotProducts
from cerp.methods.als.solver import AlsSettings, als_vectors
from cerp.methods.als.teacher import SCALES, logit_scale, teacher_vectors
from cerp.presets import preset
from cerp.progress import progress
from cerp.runs.fit import fit_all, load_run
from cerp.runtime import Runtime
from small_graphs import splits_of

SETTINGS = AlsSettings(rank=4, regularization=2.0, alpha=3.0, iterations=40)


@pytest.fixture(scope="module")
def splits() -> Splits:
    return splits_of(0)


def test_vectors_are_where_the_objective_is_flat(splits: Splits):
    vectors = als_vectors(splits.train, SETTINGS, seed=0).astype(np.float64)
    users, items = vectors[: splits.num_users], vectors[splits.num_users :]
    taken = np.zeros((splits.num_users, splits.num_items))
    taken[splits.train.user, splits.train.item] = 1
    weights = np.where(taken == 1, SETTINGS.alpha, 1.0)
    # The gradient of the documented objective by the items, which were solved last.
    missing = weights * (taken - users @ items.T)
    gradient = -2 * missing.T @ users + 2 * SETTINGS.regularization * items
    assert np.abs(gradient).max() < 0.02 * np.abs(2 * missing.T @ users).max()
    assert vectors.shape == (splits.num_entities, 4)


def test_the_same_seed_gives_the_same_bits_whatever_the_threads(splits: Splits):
    first = als_vectors(splits.train, SETTINGS, seed=3)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1 + threads % 2)
        again = als_vectors(splits.train, SETTINGS, seed=3)
    finally:
        torch.set_num_threads(threads)
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != als_vectors(splits.train, SETTINGS, seed=4).tobytes()


def test_the_package_has_nothing_to_warn_of_where_the_blas_has_threads(splits: Splits):
    with threadpool_limits(2, "blas"):  # its warning would be an error here
        als_vectors(splits.train, SETTINGS, seed=0)


def test_lists_are_those_of_the_package_itself(splits: Splits):
    from implicit.cpu.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix

    train = splits.train
    vectors = als_vectors(train, SETTINGS, seed=0)
    model = AlternatingLeastSquares(factors=4, num_threads=1)
    model.user_factors, model.item_factors = np.split(vectors, [splits.num_users])
    taken = csr_matrix(
        (np.ones(len(train), dtype=np.float32), (train.user, train.item)),
        shape=(splits.num_users, splits.num_items),
    )
    everyone = np.arange(splits.num_users)
    theirs, _ = model.recommend(everyone, taken, N=5)
    scores = DotProducts(vectors, splits.num_users).score_all(everyone.astype(np.int32))
    scores[train.user, train.item] = -np.inf
    own = np.argsort(-scores, axis=1, kind="stable")[:, :5]
    # Its products are rounded otherwise, so that items which nearly tie may change places.
    first, second = (np.take_along_axis(scores, one, axis=1) for one in (own, theirs))
    np.testing.assert_allclose(first, second, atol=1e-6)
    assert (own == theirs).mean() > 0.95


def test_a_search_judges_nothing_twice_and_keeps_to_the_largest_rank(splits: Splits):
    with progress("als", quiet=True) as bar:
        search = AlsSearch(splits, "ndcg@10", 0, bar)
        small, large = search.best(3), search.best(40)
        assert small.settings.rank <= 3
        assert large.score == max(score for one, score in search.judged.items() if one)
        assert search.best(40) == replace(large, trials=0)
    found = als_vectors(splits.train, large.settings, 0)
    scorer = DotProducts(found, splits.num_users)
    assert evaluate(scorer, splits, on="valid").mean["ndcg@10"] == pytest.approx(large.score)


# Runs


def test_a_run_ships_its_vectors_as_they_are(splits: Splits):
    model = cerp.fit(splits, method="als", verbose=False)
    facts, file = model.facts, decode(model.file())
    assert (facts.budget, facts.best_epoch, model.config.backbone) == ("full", 0, "mf")
    assert (file.head, file.layers, file.positions) == ("dot", 0, None)
    settings = AlsSettings(*(facts.search[name] for name in AlsSettings.__dataclass_fields__))
    [table] = file.embedding.tables
    assert table.weight.tobytes() == als_vectors(splits.train, settings, 0).tobytes()
    assert facts.nnz == splits.num_entities * settings.rank
    judged = evaluate(Runtime(file), splits).mean["ndcg@10"]
    assert facts.metrics["test"]["ndcg@10"] == pytest.approx(judged, abs=1e-6)


@pytest.mark.parametrize("size", ["3KB", "5KB"])
def test_a_size_chooses_rank_and_precision(splits: Splits, size: str):
    model = cerp.fit(splits, method="als", max_file_size=size, seen=False, verbose=False)
    limit = int(size.removesuffix("KB")) * 1000
    assert model.facts.file_bytes == len(model.file()) <= limit
    assert model.facts.values in ("fp16", "int8", "int4")
    assert model.facts.nnz <= model.limit
    judged = evaluate(Runtime(decode(model.file())), splits, on="valid").mean["ndcg@10"]
    assert model.metrics["valid"]["ndcg@10"] == pytest.approx(judged, abs=1e-6)


@pytest.mark.parametrize("values", ["fp32", "fp16", "int8", "int4"])
def test_it_can_be_written_in_every_precision(splits: Splits, values: str):
    model = cerp.fit(splits, method="als", values=values, dim=4, verbose=False)
    assert decode(model.file()).precision == values
    assert section_bytes(model.file(Encoding(values)))["codebook values"] > 0


def test_what_cannot_fit_is_refused_before_anything_is_solved(
    splits: Splits, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("cerp.methods.als.search.als_vectors", None)
    with pytest.raises(BudgetError, match="too small"):
        cerp.fit(splits, method="als", max_file_size="500B", seen=False, verbose=False)


def test_another_backbone_is_refused(splits: Splits):
    with pytest.raises(ConfigError, match="goes with the backbone 'mf' alone"):
        cerp.fit(splits, method="als", backbone="lightgcn", verbose=False)


def test_without_the_package_the_extra_is_named(splits: Splits, monkeypatch: pytest.MonkeyPatch):
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "implicit" else there(name)
    )
    with pytest.raises(MissingExtra, match=r"pip install 'cerp\[als\]'"):
        cerp.fit(splits, method="als", verbose=False)
    assert "als" not in chosen_names(["all"])


def test_a_refit_solves_again_with_the_settings_that_were_found(splits: Splits):
    model = cerp.fit(splits, method="als", refit="train+valid", dim=8, verbose=False)
    settings = AlsSettings(*(model.facts.search[name] for name in AlsSettings.__dataclass_fields__))
    more = splits.refit("train+valid").train
    [table] = decode(model.file()).embedding.tables
    assert table.weight.tobytes() == als_vectors(more, settings, 0).tobytes()


def test_a_run_can_be_loaded_again(splits: Splits, tmp_path: Path):
    options = RunOptions(folder=tmp_path / "run", quiet=True)
    config = replace(preset("default", method="als"), dim=8)
    [model] = fit_all(splits, config, options)
    [again] = load_run(tmp_path / "run", splits)
    assert again.file() == model.file()
    assert again.facts == model.facts


def test_the_command_gives_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["train", "synthetic", "--method", "als", "--max-file-size", "100KB", "--json"]
    app([*words, "--dim", "8", "-o", str(tmp_path / "run")], standalone_mode=False)
    [found] = json.loads(capsys.readouterr().out)["models"]
    assert found["file_bytes"] <= 100_000
    assert {"rank", "alpha", "regularization", "iterations"} <= set(found["search"])
    assert found["test"]["ndcg@10"] > 0


def test_a_comparison_has_it_once_with_its_own_backbone():
    jobs = plan(["als", "ud"], ["lightgcn", "mlp"], ["99%"], 1)
    assert [(job.method, job.backbone) for job in jobs] == [
        ("als", "mf"), ("ud", "lightgcn"), ("ud", "mlp")
    ]  # fmt: skip
    assert jobs[0].config.backbone == "mf"


# As a teacher


def test_the_scale_makes_logits_of_scores():
    splits = synthetic(200, 100, 4000).split(seed=0)
    vectors = als_vectors(splits.train, SETTINGS, seed=0)
    scale = logit_scale(vectors, splits, seed=0)
    assert SCALES[0] < scale < SCALES[-1]
    # Scores that are s times as large need a scale that is s times as small.
    assert logit_scale(2 * vectors, splits, seed=0) == scale / 4


def test_the_teacher_s_vectors_rank_as_those_of_als_do(splits: Splits):
    vectors = als_vectors(splits.train, SETTINGS, seed=0)
    told = teacher_vectors(vectors, splits, 16, seed=0)
    assert told.shape == (splits.num_entities, 16)
    first, second = (DotProducts(one, splits.num_users) for one in (vectors, told))
    users = np.arange(splits.num_users, dtype=np.int32)
    scaled = logit_scale(vectors, splits, 0) * first.score_all(users)
    np.testing.assert_allclose(second.score_all(users), scaled, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_a_student_learns_from_als(splits: Splits):
    settings = {"dim": 8, "epochs": 2, "prune_epochs": 1, "seen": False}
    model = cerp.fit(splits, "50%", backbone="mf", teacher="als", verbose=False, **settings)
    assert model.facts.assignment == "learned"
    assert model.config.teacher == "als"


def test_weights_are_confidences_in_proportion_to_their_mean():
    """One turn of items against the normal equations, solved by NumPy."""
    rng = np.random.default_rng(2)
    user, item = np.nonzero(rng.random((14, 10)) < 0.5)
    weight = rng.integers(1, 8, size=len(user))
    train = Interactions.from_ids(user, item, weight=weight)
    settings = AlsSettings(rank=3, regularization=0.7, alpha=4.0, iterations=30)
    vectors = als_vectors(train, settings, seed=0).astype(np.float64)
    users, items = vectors[:14], vectors[14:]
    confidence, taken = np.ones((14, 10)), np.zeros((14, 10))
    confidence[user, item] = 4.0 * weight / weight.mean()
    taken[user, item] = 1
    for code in range(10):
        gram = users.T @ (confidence[:, code, None] * users) + 0.7 * np.eye(3)
        expected = np.linalg.solve(gram, users.T @ (confidence[:, code] * taken[:, code]))
        np.testing.assert_allclose(items[code], expected, atol=1e-3)
