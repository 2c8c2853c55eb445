from __future__ import annotations

import numpy as np
import pytest
import torch

from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.models.backbones import LightGCN, half_propagation
from cerp.models.backbones.base import BatchOutput
from cerp.models.backbones.sum_penalty import penalty_of_sums
from cerp.models.embeddings.composition import Composition
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.pruning.functional import pruning_penalty

USERS, ITEMS, DIMENSION = 150, 200, 130
PAIRS = torch.arange(USERS), torch.stack([torch.arange(USERS), torch.zeros(USERS).long()], dim=1)
"""User b against items b and 0, for all users."""


def skewed() -> Interactions:
    """Item k is taken by about 80% / (k + 1) of the users; many items by none."""
    chance = 0.8 / np.arange(1, ITEMS + 1)
    user, item = np.nonzero(np.random.default_rng(0).random((USERS, ITEMS)) < chance)
    return Interactions.from_codes(user, item, users=Ids.range(USERS), items=Ids.range(ITEMS))


def embedding_of(books: int, size: float = 1.0) -> CompositionalEmbedding:
    """Of two books by a hash, or of several by codes, with normal weights of a size."""
    random = torch.Generator().manual_seed(0)
    codes = None
    if books > 2:
        codes = torch.randint(20, (USERS + ITEMS, books), generator=random).numpy()
    made = CompositionalEmbedding(USERS + ITEMS, DIMENSION, buckets=20, codes=codes)
    made.weight.data.normal_(std=size, generator=random)
    return made


def scores_and_gradient(
    embedding: CompositionalEmbedding, incoming: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    backbone = LightGCN(skewed(), embedding_dim=DIMENSION)
    output: BatchOutput = backbone(embedding, *PAIRS)
    (gradient,) = torch.autograd.grad((output.scores * incoming).sum(), embedding.weight)
    return output.scores.detach(), gradient


def relative_error(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("books", [2, 8])
@pytest.mark.parametrize("size", [1e-12, 1.0, 1e9])
@pytest.mark.parametrize("slope", [1e-9, 1.0, 1e6])
def test_whatever_the_size_of_weights_and_gradients_the_error_is_below_a_thousandth(
    books: int, size: float, slope: float
):
    incoming = slope * torch.rand(USERS, 2, generator=torch.Generator().manual_seed(1))
    found = scores_and_gradient(embedding_of(books, size), incoming)
    # In float64 nothing is stored in half precision.
    exact = scores_and_gradient(embedding_of(books, size).double(), incoming.double())
    assert all(relative_error(*pair) < 1e-3 for pair in zip(found, exact, strict=True))


def test_repeated_passes_agree_in_every_bit():
    passes = [scores_and_gradient(embedding_of(2), torch.ones(USERS, 2)) for _ in range(2)]
    assert all(map(torch.equal, *passes))


def test_a_table_larger_than_the_memory_that_is_kept_goes_a_few_columns_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
):
    widths = []
    whole = half_propagation.Walk.sum_of_powers

    def noted(walk: half_propagation.Walk, start: torch.Tensor, terms: int) -> torch.Tensor:
        widths.append(start.shape[1])
        return whole(walk, start, terms)

    monkeypatch.setattr(half_propagation.Walk, "sum_of_powers", noted)
    at_once = scores_and_gradient(embedding_of(2), torch.ones(USERS, 2))
    # 350 nodes with 130 halves of two bytes each are 91,000 bytes.
    monkeypatch.setattr(half_propagation, "LARGEST_TABLE", 91_000)
    in_parts = scores_and_gradient(embedding_of(2), torch.ones(USERS, 2))
    assert widths == [130, 130, *(2 * [64, 64, 2])]
    torch.testing.assert_close(in_parts[0], at_once[0])
    # Columns do not mix, and scores, which they add up to, do not matter to the gradient.
    assert torch.equal(in_parts[1], at_once[1])


def test_a_row_that_all_hubs_share_does_not_overflow():
    # 300 users and 300 items, all pairs taken: every degree is 300, and vectors are all alike.
    count = 300
    user, item = np.divmod(np.arange(count * count), count)
    train = Interactions.from_codes(user, item, users=Ids.range(count), items=Ids.range(count))
    codes = np.zeros((2 * count, 1), dtype=np.int64)
    embedding = CompositionalEmbedding(2 * count, 1, codes=codes, buckets=1)
    embedding.weight.data.fill_(1e4)
    backbone = LightGCN(train, embedding_dim=1, layers=1)
    everyone = torch.arange(count)
    output: BatchOutput = backbone(embedding, everyone, everyone[:, None])
    # Â keeps a table of equal vectors, so z = e, each score is w², and its slope 2w.
    torch.testing.assert_close(output.scores, torch.full((count, 1), 1e8), rtol=1e-3, atol=0)
    (gradient,) = torch.autograd.grad(output.scores.sum(), embedding.weight)
    torch.testing.assert_close(gradient, torch.tensor([[count * 2e4]]), rtol=1e-3, atol=0)


def test_pruned_to_nothing_scores_and_gradient_are_zero():
    scores, gradient = scores_and_gradient(embedding_of(2, size=0.0), torch.ones(USERS, 2))
    assert not scores.any()
    assert not gradient.any()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_show_in_the_scores(bad: float):
    embedding = embedding_of(2)
    embedding.weight.data[0] = bad
    scores, _ = scores_and_gradient(embedding, torch.ones(USERS, 2))
    assert not torch.isfinite(scores).all()


def test_other_codes_are_followed_from_one_step_to_the_next():
    embedding, backbone = embedding_of(8), LightGCN(skewed(), embedding_dim=DIMENSION)
    backbone(embedding, *PAIRS)
    assert embedding.codes is not None
    embedding.recode((embedding.codes.numpy() + 1) % 20)
    found: BatchOutput = backbone(embedding, *PAIRS)
    expected: BatchOutput = LightGCN(skewed(), embedding_dim=DIMENSION)(embedding, *PAIRS)
    assert torch.equal(found.scores, expected.scores)


def test_the_penalty_of_sums_is_that_of_their_table():
    rows = torch.tensor([0, 1, 2, 0, 1]), torch.tensor([3, 3, 4, 4, 3])
    composition = Composition.of(rows, 6)  # row 5 is nobody's
    weight = torch.randn(6, 7, generator=torch.Generator().manual_seed(0)).mul_(0.01)
    weight.requires_grad_()
    counts = torch.tensor([1.0, 0.0, 3.0, 1.0, 0.0])
    found = penalty_of_sums(weight, composition, counts, 100.0)
    expected = pruning_penalty(composition.table(weight), temperature=100.0, weight=counts)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(3 * value, weight)[0] for value in (found, expected)]
    torch.testing.assert_close(*gradients)


def test_the_penalty_of_nobody_is_zero():
    composition = Composition.of([torch.tensor([0, 1])], 2)
    weight = torch.ones(2, 3, requires_grad=True)
    penalty = penalty_of_sums(weight, composition, torch.zeros(2), 100.0)
    (gradient,) = torch.autograd.grad(penalty, weight)
    assert penalty == 0
    assert not gradient.any()
