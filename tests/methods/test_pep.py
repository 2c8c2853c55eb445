from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cerp.methods.pep import PrunableTable
from cerp.pruning.clocks import FreeClock
from cerp.pruning.functional import shift_to_keep
from cerp.training.optimizers import threshold_adam
from embedding_contract import ALL_IDS, DIM, ENTITIES, EmbeddingContract, seeded


class TestDense(EmbeddingContract):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> PrunableTable:
        return PrunableTable(ENTITIES, DIM, padding_idx, generator=seeded(seed))

    def fresh(self, padding_idx: int | None = None) -> PrunableTable:
        return TestDense.build(self, padding_idx, seed=99)


class TestPruning(TestDense):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> PrunableTable:
        embedding = super().build(padding_idx, seed)
        embedding.start_pruning("uniform", scale=-6.0, generator=seeded(seed))
        assert embedding.threshold is not None
        embedding.ceiling.fill_(2.0)
        shift = shift_to_keep(embedding.weight, embedding.threshold, 60, embedding.ceiling)
        embedding.shift.copy_(shift + 1e-3)  # it leaves one entry at the kink
        return embedding


class TestMasked(TestPruning):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> PrunableTable:
        embedding = super().build(padding_idx, seed)
        embedding.project(50)
        return embedding


def by_hand() -> PrunableTable:
    """σ(S) is 0.2 in the first row, 0.5 in the second."""
    embedding = PrunableTable(2, 3)
    embedding.weight.data.copy_(torch.tensor([[0.5, -0.3, 0.1], [0.6, -0.5, -0.7]]))
    embedding.start_pruning()
    odds = torch.tensor([[0.2 / 0.8], [0.5 / 0.5]])
    embedding.threshold.data.copy_(odds.log().expand(2, 3))
    return embedding


def test_vectors_are_soft_thresholded():
    expected = torch.tensor([[0.3, -0.1, 0.0], [0.1, 0.0, -0.2]])
    torch.testing.assert_close(by_hand().table(), expected)
    assert by_hand().nnz == 4


def test_gradients_are_those_of_the_paper():
    embedding, incoming = by_hand(), torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    embedding(torch.tensor([0, 1])).backward(incoming)
    # dV = G where V̂ ≠ 0; dS = -σ'(S) G sign(V) there, with σ' = 0.16 and 0.25.
    assert embedding.weight.grad.tolist() == [[1, 2, 0], [4, 0, 6]]
    expected = torch.tensor([[-0.16, 0.32, 0.0], [-1.0, 0.0, 1.5]])
    torch.testing.assert_close(embedding.threshold.grad, expected)


@pytest.mark.parametrize(("optimizer_class", "rises"), [("Adam", True), ("AdamW", False)])
def test_without_a_loss_only_coupled_decay_raises_thresholds(optimizer_class: str, rises: bool):
    embedding = TestDense().build()
    embedding.start_pruning()
    optimizer = getattr(torch.optim, optimizer_class)(
        [embedding.threshold], lr=0.1, weight_decay=1e-5
    )
    for _ in range(10):
        optimizer.zero_grad()
        (0 * embedding.table().sum()).backward()
        optimizer.step()
    # AdamW's decay is lr · λ · S = 1e-4 a step; Adam's steps are lr each.
    assert bool((embedding.threshold > -99.5).all()) == rises


def test_a_free_clock_passes_the_limit_between_two_steps_and_the_mask_is_exact():
    embedding, limit = TestDense().build(), 30
    embedding.start_pruning(scale=-20.0)
    bound = embedding.weight.abs().max().item()
    optimizer = threshold_adam(
        FreeClock(start=-20.0, typical_weight=bound, steps=60), embedding.threshold
    )
    masks, counts = [], []
    for _ in range(80):
        masks.append(embedding.mask_for(limit))
        counts.append(embedding.nnz)
        if counts[-1] <= limit:
            break
        optimizer.zero_grad()
        (embedding.table() * 1e-6).sum().backward()
        optimizer.step()
    assert counts[-2] > limit >= counts[-1]
    assert [int(mask.sum()) for mask in masks] == [limit] * len(masks)


def test_retraining_starts_from_the_first_values_under_the_mask():
    embedding = TestDense().build()
    initial = embedding.weight.detach().clone()
    embedding.weight.data.normal_(generator=seeded(3))
    mask = embedding.project("80%")  # ⌊0.2 · 23 · 6⌋ = 27
    embedding.rewind(initial)
    assert torch.equal(embedding.table(), initial * mask)
    assert int(mask.sum()) == 27


def test_nothing_grows_back_in_retraining():
    embedding = TestMasked().build()
    mask = embedding.mask.clone()
    optimizer = torch.optim.Adam(embedding.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        (embedding(ALL_IDS) - 1).square().sum().backward()
        optimizer.step()
        assert embedding.nnz <= 50
    assert embedding.table()[~mask].count_nonzero() == 0


@settings(max_examples=30)
@given(st.integers(2, ENTITIES * DIM))
def test_magnitude_pruning_keeps_the_largest_entries(limit: int):
    embedding = TestDense().build()
    size = np.sort(embedding.weight.detach().abs().numpy().ravel())[::-1]
    embedding.project(limit)
    kept = np.sort(embedding.table().detach().abs().numpy().ravel())[::-1]
    np.testing.assert_array_equal(kept[:limit], size[:limit])
    assert embedding.cost() == (limit, limit)


def test_a_mask_can_be_given_and_only_shrinks():
    embedding = TestDense().build()
    embedding.restrict(embedding.weight > 0)
    narrow = embedding.restrict(ALL_IDS[:, None].expand(-1, DIM) % 2 == 0)
    assert embedding.nnz == int(narrow.sum())
    assert bool((embedding.table()[narrow] > 0).all())


def test_printing_shows_sizes_and_state():
    assert repr(TestPruning().build()) == "PrunableTable(23, 6, pruning)"
