from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cerp.budget import Budget
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError
from cerp.methods.ud import UniformEmbedding
from cerp.models import backbones
from cerp.models.batch import Batch
from cerp.models.recommender import Recommender
from cerp.training.losses import bpr
from cerp.training.sampling import Sampler
from embedding_contract import (
    BACKBONES,
    BATCH,
    DIM,
    ENTITIES,
    ITEMS,
    TRAIN,
    USERS,
    EmbeddingContract,
    recommender,
    seeded,
)

GOWALLA = 70_839


class TestUniform(EmbeddingContract):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> UniformEmbedding:
        return UniformEmbedding.for_limit(
            ENTITIES, DIM, 3 * ENTITIES + 5, padding_idx=padding_idx, generator=seeded(seed)
        )

    def fresh(self, padding_idx: int | None = None) -> UniformEmbedding:
        return self.build(padding_idx, seed=99)


@pytest.mark.parametrize(("share", "width"), [("90%", 12), ("95%", 6), ("99%", 1)])
def test_the_widths_on_gowalla(share: str, width: int):
    limit = Budget.parse(share).limit(GOWALLA, 128)
    assert UniformEmbedding.for_limit(GOWALLA, 128, limit).weight.shape == (GOWALLA, width)


@given(st.integers(1, 40), st.integers(1, 9), st.data())
def test_the_width_is_the_largest_within_the_limit(entities: int, dim: int, data: st.DataObject):
    limit = data.draw(st.integers(entities, entities * dim))
    table = UniformEmbedding.for_limit(entities, dim, limit)
    values = table.weight.numel()
    assert table.cost() == (values, values)
    assert values <= limit < values + entities


def test_a_limit_beyond_the_full_table_makes_no_wider_vectors():
    assert UniformEmbedding.for_limit(ENTITIES, DIM, 10**6).embedding_dim == DIM


def test_a_limit_below_one_value_each_is_refused():
    with pytest.raises(ConfigError, match="smallest possible budget is 23"):
        UniformEmbedding.for_limit(ENTITIES, DIM, ENTITIES - 1)


def test_only_rows_that_were_looked_up_learn():
    model = recommender(TestUniform().build(), "mf")
    model(BATCH).scores.sum().backward()
    # users 0, 2 and 7, and items 0 1 3 4 5 7 9 10 13 behind the 9 users
    assert model.embedding.weight.grad is not None
    touched = model.embedding.weight.grad.any(dim=1).nonzero().flatten().tolist()
    assert touched == [0, 2, 7, 9, 10, 12, 13, 14, 16, 18, 19, 22]


def test_backbones_see_the_short_vectors_and_keep_their_own_widths():
    table = TestUniform().build()
    tower, graph = recommender(table, "mlp"), recommender(table, "lightgcn")
    shapes = [tuple(entry.shape) for entry in tower.backbone.parameters() if entry.dim() == 2]
    assert shapes == [(8, 2 * 3), (4, 8), (2, 4), (1, 2)]
    assert vars(graph.scorer())["item_vectors"].shape == (14, 3)
    assert torch.isfinite(graph(BATCH).scores).all()


def learned(model: Recommender, batches: list[Batch]) -> torch.Tensor:
    """The scores of all items for all users after a step on each batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for batch in batches:
        optimizer.zero_grad()
        bpr(model(batch).scores).backward()
        optimizer.step()
    return model.eval().scorer().score_all(np.arange(USERS, dtype=np.int32))


@pytest.mark.parametrize("backbone", BACKBONES)
def test_relabelled_entities_learn_the_same_scores_from_the_same_rows(backbone: str):
    users, items = (torch.randperm(count, generator=seeded(count)) for count in (USERS, ITEMS))
    codes = users.numpy()[TRAIN.user], items.numpy()[TRAIN.item]
    pairs = Interactions.from_codes(*codes, users=TRAIN.users, items=TRAIN.items)
    table, twin = TestUniform().build(), TestUniform().build(seed=99)
    twin.weight.data[torch.cat([users, items + USERS])] = table.weight.data
    options = {"embedding_dim": 3, "generator": seeded(1), **BACKBONES[backbone]}
    batches = list(Sampler(TRAIN, batch_size=9))
    relabelled = [Batch(users[one.users], *(items[x] for x in one[1:])) for one in batches]
    expected = learned(recommender(table, backbone), batches)
    scores = learned(Recommender(twin, backbones.create(backbone, pairs, **options)), relabelled)
    torch.testing.assert_close(scores[users][:, items], expected)
