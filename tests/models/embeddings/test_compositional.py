from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cerp.errors import ConfigError, DataError
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.embeddings.diagnostics import Diagnostics
from cerp.models.embeddings.full import FullEmbedding
from cerp.pruning.functional import shift_to_keep
from embedding_contract import ALL_IDS, DIM, ENTITIES, EmbeddingContract, seeded

ORDER = np.random.default_rng(0).permutation(ENTITIES)


class TestFull(EmbeddingContract):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> FullEmbedding:
        return FullEmbedding(ENTITIES, DIM, padding_idx, generator=seeded(seed))

    def fresh(self, padding_idx: int | None = None) -> FullEmbedding:
        return self.build(padding_idx, seed=99)


class TestDense(EmbeddingContract):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> CompositionalEmbedding:
        return CompositionalEmbedding(
            ENTITIES, DIM, padding_idx, buckets=7, positions=ORDER, generator=seeded(seed)
        )

    def fresh(self, padding_idx: int | None = None) -> CompositionalEmbedding:
        return CompositionalEmbedding(ENTITIES, DIM, padding_idx, buckets=7)


class TestPruning(TestDense):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> CompositionalEmbedding:
        embedding = super().build(padding_idx, seed)
        embedding.start_pruning("uniform", scale=-6.0, generator=seeded(seed))
        assert embedding.threshold is not None
        embedding.ceiling.fill_(2.0)
        shift = shift_to_keep(embedding.weight, embedding.threshold, 50, embedding.ceiling)
        embedding.shift.copy_(shift + 1e-3)  # it leaves one entry at the kink
        return embedding


class TestMasked(TestPruning):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> CompositionalEmbedding:
        embedding = super().build(padding_idx, seed)
        embedding.project(40)
        return embedding


class TestQuotientRemainder(EmbeddingContract):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> CompositionalEmbedding:
        return CompositionalEmbedding(
            ENTITIES,
            DIM,
            padding_idx,
            buckets=4,
            hash_name="quotient-remainder",
            generator=seeded(seed),
        )

    def fresh(self, padding_idx: int | None = None) -> CompositionalEmbedding:
        return self.build(padding_idx, seed=99)


def dense(entities: int = ENTITIES, dim: int = DIM, buckets: int = 7) -> CompositionalEmbedding:
    return CompositionalEmbedding(entities, dim, buckets=buckets, generator=seeded())


def pruning(keep: int = 50) -> CompositionalEmbedding:
    embedding = dense()
    embedding.start_pruning("uniform", scale=-6.0, generator=seeded())
    assert embedding.threshold is not None
    embedding.ceiling.fill_(2.0)
    shift = shift_to_keep(embedding.weight, embedding.threshold, keep, embedding.ceiling)
    embedding.shift.copy_(shift)
    return embedding


def by_definition(embedding: CompositionalEmbedding) -> np.ndarray:
    """e_k = P̂[π(k) mod b] + Q̂[π(k)·b div N] in plain NumPy."""
    weight = embedding.weight.detach().numpy()
    if embedding.threshold is not None:
        raised = embedding.threshold.detach().numpy() + embedding.shift.item()
        cut = embedding.ceiling.item() / (1 + np.exp(-raised))
        weight = np.sign(weight) * np.maximum(np.abs(weight) - cut, 0)
    b, n = embedding.hash.buckets, embedding.num_embeddings
    place = range(n) if embedding.positions is None else embedding.positions.tolist()
    return np.stack([weight[k % b] + weight[b + k * b // n] for k in place])


@pytest.mark.parametrize("test", [TestDense, TestPruning, TestMasked])
def test_vectors_are_those_of_the_definition(test: type[TestDense]):
    embedding = test().build()
    vectors = embedding(ALL_IDS).detach().numpy()
    np.testing.assert_allclose(vectors, by_definition(embedding), atol=1e-6)
    assert len(np.unique(by_definition(dense()), axis=0)) == ENTITIES


def test_the_gradient_of_the_table_matches_finite_differences():
    embedding = dense(entities=5, dim=2, buckets=3).double()
    composition = embedding._composition_of(None)
    assert torch.autograd.gradcheck(composition.table, (embedding.weight,))


def test_codebooks_start_xavier_uniform_each_by_its_own_shape():
    embedding = dense(entities=3000, dim=50, buckets=200)
    for codebook in embedding.codebooks(embedding.weight):
        assert codebook.abs().max().item() == pytest.approx((6 / 250) ** 0.5, rel=1e-3)


def test_a_budget_chooses_the_buckets():
    assert CompositionalEmbedding(70_839, 4, budget="90%").hash.buckets == 4959  # 1.4 t / (2 d)


@pytest.mark.parametrize("both", [{}, {"buckets": 7, "budget": "90%"}])
def test_either_buckets_or_a_budget_is_needed(both: dict[str, int]):
    with pytest.raises(ConfigError, match="either buckets or a budget"):
        CompositionalEmbedding(ENTITIES, DIM, **both)


@pytest.mark.parametrize("bad", [ORDER[:-1], ORDER + 1, np.zeros(ENTITIES, dtype=int)])
def test_positions_that_are_no_permutation_are_refused(bad: np.ndarray):
    with pytest.raises(DataError, match=r"each of 0\.\.22 once"):
        CompositionalEmbedding(ENTITIES, DIM, buckets=7, positions=bad)


@pytest.mark.parametrize("sizes", [(0, 4), (4, 0)])
def test_an_empty_embedding_is_refused(sizes: tuple[int, int]):
    with pytest.raises(ConfigError, match="at least 1 entity and 1 dimension"):
        CompositionalEmbedding(*sizes, buckets=7)


def test_starting_to_prune_changes_no_vector():
    embedding = dense()
    before = embedding.table().detach().clone()
    embedding.start_pruning()
    assert torch.equal(embedding.table(), before)
    assert embedding.sparsity == 1 - 2 * 7 / 23


@pytest.mark.parametrize("keep", [pruning, TestMasked().build])
def test_pruning_starts_only_once(keep):
    with pytest.raises(ConfigError, match="starts once"):
        keep().start_pruning()


def test_the_penalty_is_that_of_the_vectors_while_pruning():
    embedding, ids = pruning(), torch.tensor([4, 4, 9])
    expected = -(np.tanh(100 * by_definition(embedding)[[4, 4, 9]]) ** 2).sum()
    assert embedding.penalty(ids).item() == pytest.approx(expected, rel=1e-5)
    assert embedding.penalty(ids, temperature=1).item() > embedding.penalty(ids).item()


def test_the_penalty_is_zero_where_nothing_is_being_pruned():
    masked = pruning()
    masked.project(50)
    assert dense().penalty(ALL_IDS).item() == masked.penalty(ALL_IDS).item() == 0


@settings(max_examples=30)
@given(st.integers(2, ENTITIES * DIM), st.sampled_from([dense, pruning]))
def test_a_projection_never_exceeds_its_budget(limit: int, build):
    embedding = build()
    nonzero = int(embedding.effective_weight().count_nonzero())
    mask = embedding.project(limit)
    assert embedding.nnz == int(mask.sum()) == min(limit, 2 * 7 * DIM)
    assert int(embedding.weight.count_nonzero()) == min(limit, nonzero)


def test_a_projection_keeps_the_largest_margins_at_their_soft_thresholded_values():
    embedding = pruning()
    soft = embedding.effective_weight().detach().clone()
    embedding.project("80%")  # ⌊0.2 * 23 * 6⌋ = 27
    kept = set(soft.abs().flatten().topk(27).indices.tolist())
    assert set(embedding.weight.flatten().nonzero().flatten().tolist()) == kept
    assert torch.equal(embedding.weight, soft * embedding.mask)
    assert embedding.threshold is None


def test_a_projection_beyond_the_survivors_leaves_room_to_grow():
    embedding = pruning(keep=30)
    survivors = embedding.effective_weight() != 0
    mask = embedding.project(60)
    assert bool((mask & survivors).sum() == survivors.sum())
    # What may grow again is stored: it counts, though it is zero now.
    assert embedding.nnz == int(mask.sum()) == 60
    assert embedding.weight.count_nonzero() == survivors.sum()


def test_projecting_again_only_shrinks_the_mask():
    embedding = pruning(keep=30)
    wide = embedding.project(60)
    narrow = embedding.project(40)
    assert int(narrow.sum()) == 40
    assert not (narrow & ~wide).any()


def test_asking_for_a_mask_changes_nothing():
    embedding = pruning()
    before = embedding.table().detach().clone()
    mask = embedding.mask_for(20)
    assert torch.equal(embedding.table(), before)
    assert torch.equal(embedding.project(20), mask)


def test_freezing_keeps_what_is_nonzero():
    embedding = pruning()
    before = embedding.table().detach().clone()
    assert int(embedding.freeze().sum()) == embedding.nnz == pytest.approx(50, abs=2)
    assert torch.equal(embedding.table(), before)
    assert embedding.threshold is None


def test_freezing_a_masked_embedding_keeps_its_mask():
    embedding = pruning(keep=30)
    mask = embedding.project(60)
    assert torch.equal(embedding.freeze(), mask)


def test_rewinding_restores_the_first_values_of_what_survived():
    embedding = dense()
    initial = embedding.weight.detach().clone()
    embedding.weight.data.normal_(generator=seeded(3))
    mask = embedding.project(30)
    embedding.rewind(initial)
    assert torch.equal(embedding.weight, initial * mask)


def test_rewinding_needs_a_mask_and_fitting_finite_values():
    embedding = dense()
    with pytest.raises(ConfigError, match="project"):
        embedding.rewind(embedding.weight.detach())
    embedding.project(30)
    with pytest.raises(DataError, match="shape"):
        embedding.rewind(torch.zeros(3, 3))
    with pytest.raises(DataError, match="NaN"):
        embedding.rewind(torch.full_like(embedding.weight, torch.nan))


def test_codebooks_with_nan_are_not_projected():
    embedding = dense()
    embedding.weight.data[2, 1] = torch.nan
    with pytest.raises(DataError, match="NaN"):
        embedding.project(30)


@pytest.mark.parametrize("optimizer_class", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
def test_masked_entries_stay_zero_while_the_others_learn(
    optimizer_class: Callable[..., torch.optim.Optimizer],
):
    embedding = pruning()
    mask = embedding.project(40)
    before = embedding.weight.detach().clone()
    optimizer = optimizer_class(embedding.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        (embedding.table() - 1).square().sum().backward()
        optimizer.step()
    assert embedding.weight[~mask].count_nonzero() == 0
    assert bool((embedding.weight != before)[mask].all())


def test_momentum_from_before_the_projection_moves_no_masked_vector():
    embedding = dense()
    optimizer = torch.optim.Adam([embedding.weight], lr=0.1)
    for limit in (None, 40):
        if limit:
            embedding.project(limit)
        optimizer.zero_grad()
        embedding.table().sum().backward()
        optimizer.step()
    assert embedding.mask is not None
    assert embedding.effective_weight()[~embedding.mask].count_nonzero() == 0
    assert embedding.nnz <= 40


def test_every_state_can_be_loaded_into_every_other():
    builds = [TestDense().build, TestPruning().build, TestMasked().build]
    for source, target in itertools.permutations(builds, 2):
        saved, loaded = source(), target(seed=4)
        loaded.load_state_dict(saved.state_dict())
        assert torch.equal(loaded.table(), saved.table())
        assert loaded.state_dict().keys() == saved.state_dict().keys()


def test_loading_keeps_the_parameters_that_optimizers_hold():
    loaded = pruning()
    held = list(loaded.parameters())
    loaded.load_state_dict(pruning(keep=20).state_dict())
    assert all(one is other for one, other in zip(held, loaded.parameters(), strict=True))


def test_a_state_of_other_buckets_is_refused():
    with pytest.raises(RuntimeError, match="size mismatch"):
        dense(buckets=8).load_state_dict(dense(buckets=7).state_dict())


def test_diagnostics_by_hand():
    # N = 6, b = 3: rows (p, q) of the entities are 00 10 21 01 12 22.
    embedding = dense(entities=6, dim=4, buckets=3)
    upper = [[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]]
    lower = [[0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    embedding.restrict(torch.tensor(upper + lower).bool())
    # unions 3 2 1 2 0 1, intersections 1 0 0 0 0 0; entities 2 and 5 are both row 2 of P alone
    assert embedding.diagnostics() == Diagnostics(
        stored_values=5,
        sparsity=1 - 5 / 24,
        average_dimension=9 / 6,
        overlap=1 / 24,
        dead_rows=0,
        empty_rows=3,
        empty_entities=1,
        collisions=1,
    )


@settings(max_examples=30)
@given(st.integers(2, 84), st.sampled_from([None, 0, 22]))
def test_diagnostics_agree_with_the_vectors(limit: int, padding_idx: int | None):
    embedding = TestDense().build(padding_idx)
    embedding.project(limit)
    vectors = embedding.table().detach().numpy()
    vectors = np.delete(vectors, [] if padding_idx is None else [padding_idx], axis=0)
    found = embedding.diagnostics()
    assert found.average_dimension == pytest.approx((vectors != 0).sum(axis=1).mean())
    assert found.empty_entities == (~vectors.any(axis=1)).sum()
    assert found.collisions == len(vectors) - len(np.unique(vectors, axis=0))


def test_diagnostics_do_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch):
    embedding = TestMasked().build()
    whole = embedding.diagnostics()
    monkeypatch.setattr("cerp.assignment.usage.ENTITIES_AT_ONCE", 5)
    assert embedding.diagnostics() == whole


def test_the_papers_divisor_shows_its_dead_rows():
    embedding = CompositionalEmbedding(70_839, 1, buckets=5000, hash_name="paper")
    assert embedding.diagnostics().dead_rows == 277


def test_printing_shows_sizes_and_state():
    assert repr(pruning()) == "CompositionalEmbedding(23, 6, buckets=7, hash=balanced, pruning)"
    assert "dense" in repr(dense())
    assert "masked" in repr(TestMasked().build())


def test_evaluation_leaves_the_composition_that_a_recorded_step_reads():
    embedding, order = dense(), torch.randperm(ENTITIES, generator=seeded())
    embedding.table_blocks(order, 3)
    kept = embedding._composition_of(order)
    embedding.table()
    assert embedding._composition_of(order) is kept
