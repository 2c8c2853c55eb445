"""The first list of a propagated model: to the bit what the vectors of all nodes give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerp.artifact import (
    ComposedEmbedding,
    FilterTerm,
    Index,
    Mixing,
    Seen,
    ShippedModel,
    Table,
)
from cerp.data.ids import Ids
from cerp.errors import ScoreError
from cerp.graph.filter import Exponents
from cerp.runtime import Runtime, first_list
from cerp.runtime.column_steps import ColumnSteps
from cerp.runtime.first_list import FewRows, FirstListRanker
from cerp.runtime.limits import Limits
from cerp.runtime.mixture_ranker import MixtureRanker, ranker_of
from cerp.runtime.propagation import propagate
from cerp.runtime.rankers import VectorRanker
from cerp.runtime.scoring import Excluded

USERS, ITEMS, DIM, LAYERS = 40, 300, 12, 4
NOTHING = Excluded(
    np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)
)


def lightgcn(seed: int, scale: float = 1.0) -> ShippedModel:
    """Random values, half of them zero; some users and items have no edges."""
    rng = np.random.default_rng(seed)
    edges = rng.random((USERS, ITEMS)) < rng.random(ITEMS) * 0.3
    edges[3], edges[:, 5] = False, False
    offsets = np.concatenate([[0], np.cumsum(edges.sum(axis=1))])
    weight = rng.normal(0, scale, (USERS + ITEMS, DIM)) * (rng.random((USERS + ITEMS, DIM)) < 0.5)
    return ShippedModel(
        facts={},
        users=Ids(np.arange(USERS)),
        items=Ids(np.arange(ITEMS)),
        head="dot",
        embedding=ComposedEmbedding((Table(Index("identity"), weight.astype(np.float32)),)),
        layers=LAYERS,
        seen=Seen(offsets, np.nonzero(edges)[1].astype(np.int32)),
    )


def few_rows(model: ShippedModel) -> tuple[FewRows, np.ndarray]:
    assert isinstance(model.embedding, ComposedEmbedding)
    assert model.seen is not None
    table = model.embedding.tables[0].weight
    return FewRows(table, model.seen, LAYERS), propagate(table, model.seen, LAYERS)


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.sampled_from([1e-30, 1.0, 1e15]))
def test_few_vectors_are_those_of_all_to_the_bit(seed: int, scale: float):
    few, expected = few_rows(lightgcn(seed, scale))
    nodes = np.random.default_rng(seed).permutation(USERS + ITEMS)[:25]
    assert np.array_equal(few.rows(nodes), expected[nodes])


def test_values_that_a_bound_leaves_open_are_propagated_as_defined(
    monkeypatch: pytest.MonkeyPatch,
):
    few, expected = few_rows(lightgcn(0))
    few.error = 2.0**-26  # wide enough that float32 leaves many values open
    columns: list[np.ndarray] = []
    defined = ColumnSteps.as_defined

    def counted(self: ColumnSteps, column: np.ndarray) -> np.ndarray:
        columns.append(column)
        return defined(self, column)

    monkeypatch.setattr(ColumnSteps, "as_defined", counted)
    nodes = np.arange(USERS, USERS + 4)
    assert np.array_equal(few.rows(nodes), expected[nodes])
    assert columns


@pytest.mark.parametrize("user", [0, 3, 17, 39])
@pytest.mark.parametrize("seed", range(5))
def test_the_first_list_is_that_of_all_vectors(user: int, seed: int):
    model = lightgcn(seed)
    limits = Limits.of("1GB", None)
    first, full = FirstListRanker(model, limits), VectorRanker(model, limits)
    asked = np.array([user], dtype=np.int32)
    excluded = Excluded(
        np.zeros(2, dtype=np.int64),
        np.array([7, 8], dtype=np.int32),
        np.array([1], dtype=np.int32),
    )
    queries = first.of_users(asked)
    assert np.array_equal(queries, full.of_users(asked))
    found, expected = first.best(queries, 10, excluded), full.best(queries, 10, excluded)
    assert "full" not in vars(first)
    assert found.ends == expected.ends
    assert found.columns[:10].tolist() == expected.columns[:10].tolist()
    assert found.scores[:10].tobytes() == expected.scores[:10].tobytes()


def test_a_second_list_and_several_users_have_the_vectors_of_all():
    runtime = Runtime(lightgcn(1), one_list_first=True)
    one = runtime.recommend(4)
    assert runtime.recommend(4) == one
    assert runtime.recommend_many([2, 4])[1] == one
    assert Runtime(lightgcn(1), one_list_first=True).recommend_many([2, 4])[1] == one
    assert Runtime(lightgcn(1)).recommend(4) == one


@pytest.mark.parametrize("beta", [0.0, 0.5, 8.0])
@pytest.mark.parametrize("user", [0, 17, 39])
def test_the_first_list_of_a_mixture_is_that_of_all_vectors(user: int, beta: float):
    term = FilterTerm(Exponents(q=0.5, p=0.5, r=0.25), Mixing(beta, 0.01))
    model, limits = replace(lightgcn(1), filter=term), Limits.of("1GB", None)
    first, full = (ranker_of(model, limits, one_list_first=is_first) for is_first in (True, False))
    assert isinstance(first, MixtureRanker)
    asked = first.of_users(np.array([user], dtype=np.int32))
    found, expected = (one.best(asked, 10, NOTHING) for one in (first, full))
    assert "full" not in vars(first.vectors)
    assert found.columns[:10].tolist() == expected.columns[:10].tolist()
    assert found.scores[:10].tobytes() == expected.scores[:10].tobytes()
    # A second list has the vectors of all.
    assert first.best(asked, 10, NOTHING).scores[:10].tobytes() == found.scores[:10].tobytes()
    assert "full" in vars(first.vectors)


def test_someone_without_items_gets_popularity_from_a_mixture_at_once():
    term = FilterTerm(Exponents(q=0.5, p=0.5, r=0.25), Mixing(2.0, 0.01))
    model = replace(lightgcn(1), filter=term)
    assert Runtime(model, one_list_first=True).recommend(3) == Runtime(model).recommend(3)


def test_where_many_items_tie_the_vectors_of_all_decide(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(first_list, "MOST_ROWS", 3)
    model = lightgcn(2)
    ranker = FirstListRanker(model, Limits.of("1GB", None))
    asked = ranker.of_users(np.array([0], dtype=np.int32))
    assert ranker.best(asked, 10, NOTHING).ends == [10]
    assert "full" in vars(ranker)


def test_vectors_that_are_not_numbers_are_refused_when_a_model_is_opened():
    model = lightgcn(0)
    assert isinstance(model.embedding, ComposedEmbedding)
    model.embedding.tables[0].weight[USERS + 5] = np.nan
    with pytest.raises(ScoreError, match="diverged"):
        FirstListRanker(model, Limits.of("1GB", None))
