"""Models of vectors without their users: the same item vectors, and nothing of anybody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cerp import artifact
from cerp.artifact import ComposedEmbedding, Encoding, Index, ShippedModel, Table, Tastes
from cerp.artifact.container import pack, unpack
from cerp.errors import ConfigError, MalformedFileError
from cerp.export.item_only import items_only
from cerp.runtime import Runtime
from cerp.runtime.folding import FoldIn
from cerp.runtime.vectors import vectors_of
from small_models import DIM, ENTITIES, NUM_ITEMS, NUM_USERS, coded_model, pruned, small_model

RNG = np.random.default_rng(3)
IDENTITY = ComposedEmbedding((pruned(RNG, Index("identity"), ENTITIES),))
JOINED = ComposedEmbedding(
    (pruned(RNG, Index("hashed", 11, 7, 3), 11, 5), pruned(RNG, Index("quotient", 8), 9, 3)),
    "concat",
)
MODELS = {
    "hashed": small_model(),
    "coded": coded_model(),
    "identity": replace(small_model(), embedding=IDENTITY),
    "identity in native order": replace(small_model(), embedding=IDENTITY, positions=None),
    "joined": replace(small_model(), embedding=JOINED),
}


@pytest.mark.parametrize("name", MODELS)
def test_items_keep_their_vectors_and_users_are_gone(name: str):
    model = MODELS[name]
    alone = artifact.decode(artifact.encode(items_only(model), Encoding()))
    assert alone.is_item_only
    assert (len(alone.users), alone.seen, alone.positions) == (0, None, None)
    np.testing.assert_array_equal(vectors_of(alone).items, vectors_of(model).items)
    users = vectors_of(model).users(np.arange(NUM_USERS, dtype=np.int32))
    np.testing.assert_allclose(alone.tastes.mean, users.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(alone.tastes.variance, users.var(axis=0), rtol=1e-5)


def test_rows_that_only_users_have_are_left_out():
    # Ten rows, of which items have the first three.
    codes = np.repeat([9, 0, 1, 2], [NUM_USERS, 10, 10, NUM_ITEMS - 20]).astype(np.int32)
    weight = np.arange(10 * DIM, dtype=np.float32).reshape(10, DIM)
    table = Table(Index("coded", 10, codes=codes), weight)
    model = replace(small_model(), embedding=ComposedEmbedding((table,)), positions=None)
    [left] = items_only(model).embedding.tables
    assert left.weight.tolist() == weight[:3].tolist()
    assert left.index.codes.tolist() == codes[NUM_USERS:].tolist()


def test_rows_of_their_own_need_no_codes():
    [left] = items_only(MODELS["identity"]).embedding.tables
    assert left.index == Index("identity")


def test_someone_new_is_folded_in_with_the_variances_of_users():
    model = items_only(small_model())
    runtime, liked = Runtime(model), np.array([3, 7], dtype=np.int32)
    fold_in = FoldIn(
        model.tastes.mean.astype(float),
        np.diag(model.tastes.variance.astype(float)),
        vectors_of(model).items,
    )
    wanted = (vectors_of(model).items @ fold_in.vector(liked)).astype(np.float32)
    found = dict(runtime.recommend_for(runtime.items.decode(liked), NUM_ITEMS, exclude_seen=False))
    scores = [found[item] for item in runtime.items.values.tolist()]
    np.testing.assert_allclose(scores, wanted, rtol=1e-5)
    with pytest.raises(ConfigError, match="items and no users"):
        runtime.recommend(100)


def test_of_nothing_liked_the_mean_user_is_left():
    model = items_only(small_model())
    fold_in = FoldIn.of_tastes(model.tastes, vectors_of(model).items)
    assert fold_in.vector(np.empty(0, dtype=np.int32)).tolist() == model.tastes.mean.tolist()


@pytest.mark.parametrize("backbone", ["mlp", "lightgcn", "propagated"])
def test_what_needs_users_or_a_graph_is_refused(backbone: str):
    with pytest.raises(ConfigError, match="leave out item_only=True"):
        items_only(small_model(backbone))


def changed(**arrays: Any) -> ShippedModel:
    model = items_only(small_model())
    assert model.tastes is not None
    return replace(model, tastes=replace(model.tastes, **arrays))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (replace(items_only(small_model()), tastes=None), "0 users and 40 items"),
        (replace(small_model(), tastes=Tastes(*np.ones((2, DIM)))), "a file without users"),
        (changed(mean=np.ones(DIM + 1)), "not those of vectors"),
        (changed(variance=np.full(DIM, -1.0)), "variances not negative"),
        (changed(mean=np.full(DIM, np.nan)), "are finite"),
    ],
)
def test_tastes_that_do_not_fit_are_not_written(model: ShippedModel, reason: str):
    with pytest.raises(ConfigError, match=reason):
        artifact.encode(model, Encoding())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda meta, tensors: meta.pop("tastes"), "0 users|nothing says"),
        (lambda meta, tensors: meta["tastes"].update(columns=DIM - 1), "tastes.mean"),
        (lambda meta, tensors: meta["tastes"].update(columns=0), "from 1 to"),
        (lambda meta, tensors: tensors["tastes.variance"].fill(-1), "negative variance"),
        (lambda meta, tensors: tensors["tastes.mean"].fill(np.inf), "NaN or infinity"),
        (lambda meta, tensors: meta.update(users=2), "codes|tables|leads|users"),
    ],
)
def test_forged_tastes_are_refused(change: Callable[..., object], reason: str):
    content = unpack(artifact.encode(items_only(small_model()), Encoding()))
    tensors = {name: tensor.copy() for name, tensor in content.tensors.items()}
    change(content.metadata, tensors)
    with pytest.raises(MalformedFileError, match=reason):
        artifact.decode(pack(content.metadata, tensors))
