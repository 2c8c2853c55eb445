"""Product, rotated product and residual quantisation of a table, beside faiss; and PCA."""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np
import pytest
import torch

from cerp.config import Config, RunOptions
from cerp.data.synthetic import synthetic
from cerp.errors import BudgetError, ConfigError
from cerp.methods import method
from cerp.methods.base import Context
from cerp.methods.lowrank import LowRankEmbedding
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.embeddings.full import FullEmbedding
from cerp.training.search_result import Found

DIM, ENTITIES = 16, 800
NOTHING = Found({}, {})
SPLITS = synthetic(500, 300, 4000).split(seed=0)


def table(seed: int = 0) -> np.ndarray:
    """Vectors around some centres, in columns that go together and differ in variance."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(40, DIM))[rng.integers(0, 40, ENTITIES)]
    mixed = (centres + 0.5 * rng.normal(size=centres.shape)) @ rng.normal(size=(DIM, DIM))
    return (mixed * np.linspace(0.1, 1, DIM)).astype(np.float32)


def context(backbone: str = "mf", seed: int = 0) -> Context:
    config = Config(backbone=backbone, dim=DIM, seed=seed)
    return Context(SPLITS, config, RunOptions(quiet=True), (10**6,))


def rebuilt(
    name: str, vectors: np.ndarray, *, backbone: str = "mf", seed: int = 0, **options: Any
) -> CompositionalEmbedding:
    here, made = context(backbone, seed), method(name, options)
    full = made.source(here)
    assert isinstance(full, FullEmbedding)
    full.weight.data.copy_(torch.from_numpy(vectors))
    kept = made.embedding(here, 10**6, NOTHING)
    made.compress(here, full, kept)
    assert isinstance(kept, CompositionalEmbedding)
    return kept


def products(vectors: np.ndarray) -> np.ndarray:
    return vectors @ vectors.T


def squared_error(name: str, vectors: np.ndarray, **options: Any) -> float:
    """Of the vectors; OPQ's are turned, which lengths do not see: those of what is lost are."""
    kept = rebuilt(name, vectors, **options).table().detach().numpy()
    if name == "opq":  # the rotation that brings them back is the best one (Procrustes)
        left, _, right = np.linalg.svd(kept.T @ vectors)
        kept = kept @ (left @ right)
    return float(np.square(kept - vectors).sum() / np.square(vectors).sum())


def of_faiss(name: str, vectors: np.ndarray, books: int, bits: int) -> float:
    quantiser: Any
    if name == "pq":
        quantiser = faiss.ProductQuantizer(DIM, books, bits)
        turned = vectors
    elif name == "opq":
        rotation = faiss.OPQMatrix(DIM, books)
        rotation.pq = faiss.ProductQuantizer(DIM, books, bits)
        rotation.train(vectors)
        turned = rotation.apply(vectors)
        quantiser = faiss.ProductQuantizer(DIM, books, bits)
    else:
        quantiser, turned = faiss.ResidualQuantizer(DIM, books, bits), vectors
    quantiser.train(turned)
    lost = quantiser.decode(quantiser.compute_codes(turned)) - turned
    return float(np.square(lost).sum() / np.square(turned).sum())


@pytest.mark.parametrize("name", ["pq", "opq", "rq"])
def test_the_error_is_not_above_that_of_faiss(name: str):
    faiss.omp_set_num_threads(1)
    mine = [squared_error(name, table(seed), seed=seed, books=4, rows=32) for seed in range(2)]
    theirs = [of_faiss(name, table(seed), 4, 5) for seed in range(2)]
    assert np.mean(mine) <= 1.02 * np.mean(theirs)


@pytest.mark.parametrize("name", ["pq", "opq", "rq"])
def test_the_error_falls_with_the_number_of_books(name: str):
    errors = [squared_error(name, table(), books=books, rows=32) for books in (1, 2, 4)]
    assert errors == sorted(errors, reverse=True)


def test_a_rotation_helps_and_costs_nothing_where_scores_are_dot_products():
    assert squared_error("opq", table(), books=4, rows=32) < squared_error(
        "pq", table(), books=4, rows=32
    )
    plain, turned = (rebuilt(name, table(), books=4, rows=32) for name in ("pq", "opq"))
    assert turned.cost() == plain.cost()
    lost = [products(one.table().detach().numpy()) - products(table()) for one in (plain, turned)]
    assert np.square(lost[1]).sum() < np.square(lost[0]).sum()


def test_nothing_is_rotated_for_a_network():
    plain, rotated = (
        rebuilt(name, table(), backbone="mlp", books=2, rows=16) for name in ("pq", "opq")
    )
    assert torch.equal(plain.table(), rotated.table())


def test_product_books_have_columns_of_their_own_and_count_once():
    kept = rebuilt("pq", table(), books=4, rows=32)
    assert kept.cost() == (32 * DIM, 32 * DIM)
    books = kept.weight.reshape(4, 32, DIM)
    for book in range(4):
        others = np.delete(np.arange(DIM), np.arange(4 * book, 4 * book + 4))
        assert books[book, :, others].count_nonzero() == 0
    vectors = kept.table().detach().numpy()
    # Every group of a vector is the nearest row of its book, but for the last step of k-means.
    group, rows = table()[:, :4], books[0, :, :4].detach().numpy()
    nearest = np.square(group[:, None] - rows).sum(axis=2).argmin(axis=1)
    assert np.isclose(vectors[:, :4], rows[nearest], atol=1e-4).all(axis=1).mean() > 0.98


def test_residual_books_are_summed_and_all_count():
    kept = rebuilt("rq", table(), books=3, rows=32)
    assert kept.cost() == (3 * 32 * DIM, 3 * 32 * DIM)


@pytest.mark.parametrize(("name", "limit", "rows"), [("pq", 650, 40), ("rq", 650, 5)])
def test_the_limit_is_of_the_values_of_the_books(name: str, limit: int, rows: int):
    made = method(name, {"books": 8}).embedding(context(), limit, NOTHING)
    assert isinstance(made, CompositionalEmbedding)
    assert made.book_rows[0] == rows
    assert made.nnz <= limit


def test_what_cannot_be_is_refused():
    with pytest.raises(BudgetError, match=r"two rows, the fewest .* take 32"):
        method("pq").embedding(context(), 31, NOTHING)
    with pytest.raises(ConfigError, match="cannot be cut for 17 books"):
        method("pq", {"books": 17}).embedding(context(), 10**6, NOTHING)


@pytest.mark.parametrize("backbone", ["mf", "mlp"])
def test_pca_is_the_best_table_of_its_rank(backbone: str):
    here, made = context(backbone), method("pca")
    full = made.source(here)
    assert isinstance(full, FullEmbedding)
    full.weight.data.copy_(torch.from_numpy(table()))
    kept = made.embedding(here, 5 * (ENTITIES + DIM), NOTHING)
    made.compress(here, full, kept)
    values = np.linalg.svd(table(), compute_uv=False)
    found = kept.table().detach().numpy()
    if backbone == "mlp":
        assert isinstance(kept, LowRankEmbedding)
        lost = np.square(found - table()).sum()
        assert lost == pytest.approx(np.square(values[5:]).sum(), rel=1e-3)
    else:
        assert found.shape == (ENTITIES, 5)
        assert np.linalg.norm(found) == pytest.approx(np.linalg.norm(values[:5]), rel=1e-4)
        lost = np.linalg.norm(products(table()) - products(found))
        assert lost == pytest.approx(np.linalg.norm(values[5:] ** 2), rel=1e-3)


def test_a_limit_below_one_coordinate_is_refused():
    with pytest.raises(BudgetError, match="smallest possible budget is 800"):
        method("pca").embedding(context(), ENTITIES - 1, NOTHING)
