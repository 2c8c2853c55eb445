"""What a training loop of one's own uses: drop-ins, bags and the pruner."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from cerp.errors import ConfigError, DataError
from cerp.nn import CompositionalEmbedding, EmbeddingBag, Pruner
from embedding_contract import seeded


def embedding(padding_idx: int | None = None, **options: Any) -> CompositionalEmbedding:
    return CompositionalEmbedding(60, 4, padding_idx, buckets=12, generator=seeded(), **options)


# Drop-ins


def test_device_and_type_are_those_asked_for():
    made = embedding(dtype=torch.bfloat16, device="cpu")
    assert made.weight.dtype == torch.bfloat16
    assert made(torch.tensor([1])).dtype == torch.bfloat16


def test_a_trained_table_gives_codes_and_first_values():
    centres = torch.randn(8, 5, generator=seeded())
    table = centres[torch.arange(80) % 8]
    made = CompositionalEmbedding.from_pretrained(table, books=1, rows=8, padding_idx=3)
    rebuilt = made.table()
    assert not rebuilt[3].any()
    kept = torch.arange(80) != 3
    torch.testing.assert_close(rebuilt[kept], table[kept], atol=1e-4, rtol=0)
    assert made.weight.requires_grad
    frozen = CompositionalEmbedding.from_pretrained(table, books=1, rows=8, freeze=True)
    assert not frozen.weight.requires_grad
    with pytest.raises(DataError, match="two dimensions"):
        CompositionalEmbedding.from_pretrained(table[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's
@pytest.mark.parametrize("state", ["dense", "pruning", "masked"])
@pytest.mark.parametrize("count", [3, 200])
def test_a_lookup_is_compiled_as_one_graph(state: str, count: int):
    torch._dynamo.reset()
    made = CompositionalEmbedding(600, 4, 3, buckets=60, generator=seeded())
    if state != "dense":
        made.start_pruning()
    if state == "masked":
        made.project(100)
    ids = torch.randint(600, (count,), generator=seeded())
    compiled = torch.compile(made, fullgraph=True, backend="eager")
    vectors = compiled(ids)
    vectors.sum().backward()
    assert torch.equal(vectors, made(ids))


def test_autocast_and_accumulated_gradients():
    made = embedding()
    made.start_pruning("uniform", scale=-4.0)
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            made(torch.tensor([1, 2])).sum().backward()
    once = made.weight.grad.clone()
    made.zero_grad()
    made(torch.tensor([1, 2])).sum().backward()
    torch.testing.assert_close(once, 2 * made.weight.grad)


# Bags


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding_idx", [None, 2])
def test_bags_are_those_of_torch(mode: Any, padding_idx: int | None):
    own = embedding(padding_idx)
    table = own.table().detach()
    theirs = nn.EmbeddingBag.from_pretrained(table, mode=mode, padding_idx=padding_idx)
    ids = torch.tensor([5, 2, 2, 9, 11, 7])
    offsets = torch.tensor([0, 3, 3, 5])
    torch.testing.assert_close(EmbeddingBag(own, mode)(ids, offsets), theirs(ids, offsets))
    rows = ids.view(2, 3)
    torch.testing.assert_close(EmbeddingBag(own, mode)(rows), theirs(rows))


def test_weights_of_single_ids_are_those_of_torch():
    own = embedding()
    theirs = nn.EmbeddingBag.from_pretrained(own.table().detach(), mode="sum")
    ids, weights = torch.tensor([[5, 2], [2, 9]]), torch.tensor([[0.5, 2.0], [-1.0, 3.0]])
    found = EmbeddingBag(own, "sum")(ids, per_sample_weights=weights)
    torch.testing.assert_close(found, theirs(ids, per_sample_weights=weights))
    last = EmbeddingBag(own, "sum", include_last_offset=True)
    assert last(torch.tensor([1, 2, 3]), torch.tensor([0, 1, 3])).shape == (2, 4)


def test_bags_that_cannot_be_are_refused():
    bag = EmbeddingBag(embedding(), "mean")
    with pytest.raises(DataError, match="offsets"):
        bag(torch.tensor([1, 2]))
    with pytest.raises(ConfigError, match="mode='sum'"):
        bag(torch.tensor([[1, 2]]), per_sample_weights=torch.ones(1, 2))
    with pytest.raises(DataError, match="weights for ids"):
        EmbeddingBag(embedding(), "sum")(torch.tensor([[1, 2]]), per_sample_weights=torch.ones(2))
    with pytest.raises(ConfigError, match="not by 'max'"):
        EmbeddingBag(embedding(), "max")


# The pruner


def train(made: list[CompositionalEmbedding], pruner: Pruner, steps: int) -> None:
    parameters = [one for each in made for one in each.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    for step in range(steps):
        optimizer.zero_grad()
        ids = torch.randint(60, (20,), generator=seeded(step))
        sum((one(ids) - 1).square().mean() for one in made).backward()
        optimizer.step()
        pruner.step()


def test_two_embeddings_come_to_one_limit_exactly():
    made = [embedding(), CompositionalEmbedding(60, 4, buckets=12, generator=seeded(1))]
    made[1].weight.data *= 3  # which therefore keeps more
    pruner = Pruner(made, "80%", steps=20)
    train(made, pruner, 20)
    alive = sum(int((one.effective_weight() != 0).sum()) for one in made)
    assert abs(alive - pruner.limit) <= 2
    assert pruner.wanted == pruner.limit == 96  # 20% of 120 x 4
    masks = pruner.finish()
    assert sum(int(mask.sum()) for mask in masks) == sum(one.nnz for one in made) == 96
    assert made[1].nnz > made[0].nnz
    assert all(one.state == "masked" for one in made)
    with pytest.raises(ConfigError, match="finished"):
        pruner.step()


def test_one_embedding_is_pruned_as_by_its_clock():
    first, second = embedding(), embedding()
    pruner = Pruner([first], 100, steps=10)
    second.start_pruning()
    for step in range(1, 8):
        pruner.step()
        pruner.clock.apply(second, step)
    assert torch.equal(first.shift, second.shift)
    assert torch.equal(first(torch.arange(60)), second(torch.arange(60)))


def test_survivors_can_go_back_to_their_first_values():
    made = embedding()
    first = made.weight.detach().clone()
    pruner = Pruner([made], 50, steps=4, rewind=True)
    train([made], pruner, 4)
    (mask,) = pruner.finish()
    assert torch.equal(made.weight, first * mask)


def test_a_pruner_that_was_never_stepped_says_so():
    pruner = Pruner([embedding()], 50, steps=4)
    with pytest.warns(UserWarning, match="never stepped"):
        pruner.finish()


def test_embeddings_of_two_dimensions_are_refused():
    with pytest.raises(ConfigError, match=r"\[4, 8\]"):
        Pruner([embedding(), CompositionalEmbedding(60, 8, buckets=12)], 50, steps=4)
    with pytest.raises(ConfigError, match="an embedding at least"):
        Pruner([], 50, steps=4)
