"""Values that are finite and very large: a named error or the right list, and no warning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cerp.artifact import (
    ComposedEmbedding,
    Encoding,
    Index,
    PropagatedTables,
    ShippedModel,
    Table,
    decode,
    encode,
)
from cerp.artifact.model import LeastSquares
from cerp.errors import ScoreError
from cerp.runtime import Runtime
from small_models import ENTITIES, NUM_ITEMS, NUM_USERS, small_model

HUGE = np.float32(3e38)


def huge_model() -> ShippedModel:
    """Items on a circle of a radius that no product of two of them can hold in 32 bits."""
    angles = np.linspace(0, np.pi / 2, NUM_ITEMS)
    items = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32) * HUGE
    users = np.full((NUM_USERS, 2), HUGE, dtype=np.float32)
    return replace(small_model(), embedding=PropagatedTables(users, items), positions=None)


@pytest.fixture
def runtime() -> Runtime:
    return Runtime(decode(encode(huge_model(), Encoding())))


def test_scores_that_32_bits_cannot_hold_are_named(runtime: Runtime):
    user, item = runtime.users.values.tolist()[0], runtime.items.values.tolist()[0]
    for ask in (lambda: runtime.recommend(user), lambda: runtime.score(user, [item])):
        with pytest.raises(ScoreError, match="too large to be ranked"):
            ask()


def test_cosines_of_huge_vectors_are_those_of_small_ones(runtime: Runtime):
    small = replace(
        runtime.model,
        embedding=PropagatedTables(
            runtime.model.embedding.users / HUGE, runtime.model.embedding.items / HUGE
        ),
    )
    item = runtime.items.values.tolist()[7]
    found, expected = runtime.similar_items(item, 5), Runtime(small).similar_items(item, 5)
    assert [one for one, _ in found] == [one for one, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected])


def test_folding_in_huge_vectors_is_refused(runtime: Runtime):
    with pytest.raises(ScoreError, match="diverged"):
        runtime.recommend_for(runtime.items.values.tolist()[:2])


def test_a_tower_that_overflows_is_named():
    model = small_model("mlp")
    weights = {name: np.full_like(weight, HUGE) for name, weight in model.weights.items()}
    runtime = Runtime(replace(model, weights=weights))
    with pytest.raises(ScoreError, match="too large to be ranked"):
        runtime.recommend(runtime.users.values.tolist()[0])


@pytest.mark.parametrize("combine", ["sum", "product"])
def test_vectors_that_overflow_when_they_are_composed_are_named(combine: str):
    table = Table(Index("identity"), np.full((ENTITIES, 2), HUGE))
    model = replace(
        small_model(), embedding=ComposedEmbedding((table, table), combine), positions=None
    )
    with pytest.raises(ScoreError, match="not finite numbers"):
        Runtime(model)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("folding", [None, LeastSquares(alpha=2.0, regularization=1.0)])
def test_users_that_overflow_are_no_one_to_fold_in_by(folding: LeastSquares | None):
    weight = np.ones((ENTITIES, 2), dtype=np.float32)
    weight[0] = HUGE
    table = Table(Index("identity"), weight)
    model = replace(
        small_model(),
        embedding=ComposedEmbedding((table, table)),
        positions=None,
        folding=folding,
    )
    runtime = Runtime(model)
    with pytest.raises(ScoreError, match="too large to make one for someone new"):
        runtime.recommend_for(runtime.items.values.tolist()[:2])
