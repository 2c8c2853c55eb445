from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cerp.assignment.residual_kmeans import learn_codes
from cerp.errors import CerpError, ConfigError, DataError
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


class CodedContract(EmbeddingContract):
    """Learned codes: dense while fresh, else pruned to 40 of the entries."""

    books: int

    def build(self, padding_idx: int | None = None, seed: int = 0) -> CompositionalEmbedding:
        embedding = coded(self.books, padding_idx, seed)
        embedding.project(40)
        return embedding

    def fresh(self, padding_idx: int | None = None) -> CompositionalEmbedding:
        return coded(self.books, padding_idx, seed=99)

    def test_vectors_are_sums_of_the_rows_that_the_codes_name(self):
        embedding = self.build()
        weight = embedding.weight.detach().numpy().reshape(self.books, 5, DIM)
        expected = np.zeros((ENTITIES, DIM), dtype=np.float32)
        for k, chosen in enumerate(codes_of(self.books)):
            for book, row in enumerate(chosen):
                expected[k] += weight[book, row]
        np.testing.assert_allclose(embedding(ALL_IDS).detach().numpy(), expected, atol=1e-6)
        np.testing.assert_allclose(embedding.table().detach().numpy(), expected, atol=1e-6)

    def test_a_projection_keeps_exactly_the_largest_of_all_books(self):
        embedding = self.fresh()
        first = embedding.weight.detach().clone()
        mask = embedding.project(17)
        largest = set(first.abs().flatten().topk(17).indices.tolist())
        assert set(mask.flatten().nonzero().flatten().tolist()) == largest
        assert embedding.nnz == 17
        assert [int(part.sum()) for part in embedding.codebooks(mask)] == [
            sum(start <= place < start + 5 * DIM for place in largest)
            for start in range(0, self.books * 5 * DIM, 5 * DIM)
        ]

    def test_rewinding_restores_first_values_in_every_book(self):
        embedding = self.fresh()
        first = embedding.weight.detach().clone()
        embedding.weight.data.normal_(generator=seeded(3))
        mask = embedding.project(5 * self.books)
        embedding.rewind(first)
        assert torch.equal(embedding.weight, first * mask)

    def test_thresholds_prune_all_books_together(self):
        embedding = self.fresh()
        embedding.start_pruning("uniform", scale=-6.0, generator=seeded())
        assert embedding.threshold is not None
        embedding.ceiling.fill_(2.0)
        shift = shift_to_keep(embedding.weight, embedding.threshold, 30, embedding.ceiling)
        embedding.shift.copy_(shift + 1e-3)
        (embedding.table().square().sum() + embedding.penalty(ALL_IDS)).backward()
        kept = embedding.effective_weight() != 0
        assert 28 <= int(kept.sum()) <= 30
        # What is cut off gets no gradient, what is left does, and so do its thresholds.
        for parameter in (embedding.weight, embedding.threshold):
            assert torch.equal(parameter.grad != 0, kept)

    def test_steps_can_be_recorded(self):
        assert self.fresh().capturable

    @pytest.mark.gpu
    def test_a_recorded_step_gives_what_a_plain_one_does(self):
        embedding = self.build().cuda()
        ids = ALL_IDS.cuda()
        plain = embedding(ids).detach().clone()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            recorded = embedding(ids)
        graph.replay()
        assert torch.equal(recorded, plain)


class TestTwoBooks(CodedContract):
    books = 2


class TestThreeBooks(CodedContract):
    books = 3


class TestFourBooks(CodedContract):
    books = 4


class TestEightBooks(CodedContract):
    books = 8


def codes_of(books: int) -> np.ndarray:
    return np.random.default_rng(books).integers(0, 5, (ENTITIES, books))


def coded(books: int = 4, padding_idx: int | None = None, seed: int = 0) -> CompositionalEmbedding:
    """Codebooks of 5 rows each."""
    return CompositionalEmbedding(
        ENTITIES, DIM, padding_idx, codes=codes_of(books), buckets=5, generator=seeded(seed)
    )


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
        dimension_deviation=float(np.std([3, 2, 1, 2, 0, 1])),
        few_values=6,
        dead_rows=0,
        empty_rows=3,
        empty_entities=1,
        collisions=1,
    )


def test_diagnostics_of_three_books_by_hand():
    # Rows of the entities: 0 and 1 share all codes; 2 differs from them in book 2, where both
    # of the rows are empty; 3 and 4 have nothing but empty rows.
    codes = np.array([[0, 0, 0], [0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 1, 0], [0, 1, 2]])
    embedding = CompositionalEmbedding(6, 4, codes=codes, buckets=3, generator=seeded())
    first = [[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]]  # row 2: no entity has it
    second = [[0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    third = [[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 1, 0]]
    embedding.restrict(torch.tensor(first + second + third).bool())
    # Unions: 110. | 011. = 3 places for entities 0, 1 and 2; none for 3 and 4; 110. | .11. = 3.
    # Pairs of books, |nz_i ∩ nz_j|: 1 + 0 + 0 for entities 0, 1, 2; 0 for 3, 4; 0 + 1 + 0 for 5.
    assert embedding.diagnostics() == Diagnostics(
        stored_values=4 + 2 + 2 + 2,
        sparsity=1 - 10 / 24,
        average_dimension=(3 + 3 + 3 + 0 + 0 + 3) / 6,
        overlap=(1 + 1 + 1 + 0 + 0 + 1) / (6 * 3 * 4),
        dimension_deviation=math.sqrt(2),
        few_values=6,
        dead_rows=1 + 1 + 0,  # row 2 of the first and of the second book
        empty_rows=1 + 2 + 2,
        empty_entities=2,
        collisions=3,  # entities 1 and 2 are as 0, and 4 as 3
    )
    assert embedding.facts() == {
        "avg_dim": 2.0,
        "overlap": 4 / 72,
        "dim_deviation": math.sqrt(2),
        "few_values": 6,
        "assignment": "learned",
        "codebooks": 3,
        "buckets": 3,
        "empty_entities": 2,
        "empty_rows": 5,
    }


@pytest.mark.parametrize("books", [2, 3, 4, 8])
def test_diagnostics_of_learned_codes_leave_out_the_padding(books: int):
    embedding = coded(books, padding_idx=3)
    embedding.project(20)
    vectors = np.delete(embedding.table().detach().numpy(), 3, axis=0)
    found = embedding.diagnostics()
    assert found.average_dimension == pytest.approx((vectors != 0).sum(axis=1).mean())
    assert found.empty_entities == (~vectors.any(axis=1)).sum()


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


def test_codes_of_a_saved_state_are_taken_over_by_one_that_had_none():
    saved = coded(2)
    loaded = dense(buckets=5)
    loaded.table()
    loaded.load_state_dict(saved.state_dict())
    assert torch.equal(loaded.table(), saved.table())
    assert torch.equal(loaded(ALL_IDS), saved(ALL_IDS))
    assert loaded.stored().tables[0].index.kind == "coded"
    assert loaded.diagnostics() == saved.diagnostics()


def test_other_codes_are_taken_over_with_their_number_of_books():
    saved = CompositionalEmbedding(ENTITIES, DIM, codes=codes_of(4) // 2, buckets=5)
    loaded = CompositionalEmbedding(ENTITIES, DIM, codes=codes_of(2), buckets=10)
    loaded.load_state_dict(saved.state_dict())
    assert loaded.book_rows == (5, 5, 5, 5)
    assert torch.equal(loaded.table(), saved.table())


def test_a_state_without_codes_is_refused_by_an_embedding_that_needs_them():
    with pytest.raises(RuntimeError, match=r"Missing key.*codes"):
        coded(2).load_state_dict(dense(buckets=5).state_dict())


def test_a_state_of_other_rows_than_the_codes_name_is_refused():
    with pytest.raises(RuntimeError, match="size mismatch"):
        coded(3).load_state_dict(coded(4).state_dict())


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.zeros((ENTITIES - 1, 4), int), r"shape \(23, number of codebooks\).*\(22, 4\)"),
        (np.zeros(ENTITIES, int), "shape"),
        (np.zeros((ENTITIES, 0), int), "shape"),
        (np.full((ENTITIES, 2), 5), r"name rows 0\.\.4, got 5 to 5"),
        (np.full((ENTITIES, 2), -1), r"name rows 0\.\.4, got -1 to -1"),
    ],
)
def test_codes_that_name_no_rows_are_refused(codes: np.ndarray, message: str):
    with pytest.raises(DataError, match=message):
        CompositionalEmbedding(ENTITIES, DIM, codes=codes, buckets=5)


def test_codes_leave_no_choice_to_a_budget_or_an_order():
    for other in ({"budget": "90%"}, {"positions": ORDER}):
        with pytest.raises(ConfigError, match="leave out budget and positions"):
            CompositionalEmbedding(ENTITIES, DIM, codes=codes_of(2), **other)


def test_codes_can_be_learned_from_vectors_on_the_way():
    # Four clouds of points: two books of two rows are enough to tell them apart.
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [0, 9], [4, 0], [4, 9]], dtype=np.float32)
    cloud = np.arange(40) % 4
    vectors = centres[cloud] + 0.1 * rng.standard_normal((40, 2), dtype=np.float32)
    embedding = CompositionalEmbedding(40, DIM, vectors=vectors, codebooks=2, buckets=2)
    assert embedding.book_rows == (2, 2)
    assert embedding.codes is not None
    found = embedding.codes.numpy()
    np.testing.assert_array_equal(found, learn_codes(vectors, books=2, rows=2).codes)
    assert len(np.unique(found, axis=0)) == 4
    assert all(len(np.unique(found[cloud == own], axis=0)) == 1 for own in range(4))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"vectors": np.zeros((ENTITIES, 3))}, "give buckets"),
        ({"vectors": np.zeros((ENTITIES, 3)), "codes": codes_of(2)}, "not both"),
        ({"vectors": np.zeros((4, 3)), "buckets": 2}, r"shape \(23, dimensions\).*\(4, 3\)"),
        ({"vectors": np.zeros((ENTITIES, 3)), "buckets": 2, "budget": "9%"}, "leave out budget"),
        ({"codes": codes_of(2), "codebooks": 4}, "2 codebooks here, not 4"),
        ({"buckets": 7, "codebooks": 4}, "2 codebooks here, not 4"),
    ],
)
def test_contradictions_about_codes_are_refused(given: dict[str, Any], message: str):
    with pytest.raises(CerpError, match=message):
        CompositionalEmbedding(ENTITIES, DIM, **given)


def test_printing_shows_how_many_codebooks():
    assert repr(coded(4)) == "CompositionalEmbedding(23, 6, codebooks=4x5, dense)"


def test_evaluation_leaves_the_composition_that_a_recorded_step_reads():
    embedding, order = dense(), torch.randperm(ENTITIES, generator=seeded())
    embedding.table_blocks(order, 3)
    kept = embedding._composition_of(order)
    embedding.table()
    assert embedding._composition_of(order) is kept


def large(state: str, seed: int = 0) -> CompositionalEmbedding:
    """Codebooks of many rows, of which a few ids name less than a quarter."""
    embedding = CompositionalEmbedding(4000, 8, buckets=200, generator=seeded(seed))
    if state != "dense":
        embedding.start_pruning("uniform", scale=-4.0, generator=seeded(1))
        embedding.ceiling.fill_(0.2)
    if state == "masked":
        embedding.project(900)
    return embedding


FEW_IDS = torch.tensor([[7, 3999, 7], [0, 21, 3800]])


@pytest.mark.parametrize("state", ["dense", "pruning", "masked"])
def test_few_ids_give_the_bits_of_a_lookup_in_whole_codebooks(
    state: str, monkeypatch: pytest.MonkeyPatch
):
    by_rows, by_books = large(state), large(state)
    found = by_rows(FEW_IDS)
    found.square().sum().backward()
    monkeypatch.setattr("cerp.models.embeddings.compositional.FEW", 10**9)
    expected = by_books(FEW_IDS)
    expected.square().sum().backward()
    assert torch.equal(found, expected)
    for one, other in zip(by_rows.parameters(), by_books.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


def test_other_codes_give_ids_other_rows():
    codes = np.array([[0, 1], [1, 0], [1, 1]])
    embedding = CompositionalEmbedding(3, 4, codes=codes, buckets=2)
    before = embedding(torch.tensor([0, 1]))
    embedding.recode(codes[[1, 0, 2]])
    assert torch.equal(embedding(torch.tensor([1, 0])), before)


@pytest.mark.parametrize("state", ["pruning", "masked"])
def test_few_ids_do_not_prune_the_codebooks(state: str, monkeypatch: pytest.MonkeyPatch):
    embedding = large(state)

    def refused(self: CompositionalEmbedding, *rows: torch.Tensor) -> None:
        raise AssertionError("all codebooks were pruned for a few ids")

    monkeypatch.setattr(CompositionalEmbedding, "_summed", refused)
    monkeypatch.setattr(CompositionalEmbedding, "effective_weight", refused)
    assert embedding(FEW_IDS).shape == (2, 3, 8)
    with pytest.raises(AssertionError, match="all codebooks"):
        embedding(torch.arange(400))


@pytest.mark.parametrize("state", ["pruning", "masked"])
@pytest.mark.parametrize("outside", [-1, 4000])
def test_one_of_few_ids_out_of_range_is_refused(state: str, outside: int):
    with pytest.raises(IndexError):
        large(state)(torch.tensor([1, outside]))


def test_the_penalty_of_vectors_that_are_there_looks_nothing_up(monkeypatch: pytest.MonkeyPatch):
    embedding = large("pruning")
    expected = embedding.penalty(FEW_IDS)
    vectors = embedding(FEW_IDS)
    monkeypatch.setattr(CompositionalEmbedding, "forward", None)
    assert torch.equal(embedding.penalty(FEW_IDS, vectors=vectors), expected)
    with pytest.raises(DataError, match=r"\(2, 3, 8\), not \(3, 8\)"):
        embedding.penalty(FEW_IDS, vectors=vectors[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_modules_of_16_bits_learn_their_thresholds_in_32(dtype: torch.dtype):
    before = CompositionalEmbedding(40, 4, buckets=8, generator=seeded()).to(dtype)
    before.start_pruning()
    after = CompositionalEmbedding(40, 4, buckets=8, generator=seeded())
    after.start_pruning()
    after.to(dtype)
    for embedding in (before, after):
        assert embedding.weight.dtype == dtype
        assert embedding.threshold.dtype == embedding.shift.dtype == torch.float32
        embedding.shift.fill_(97.0)  # σ(-3) = 0.047: most entries survive
        vectors = embedding(torch.arange(40))
        assert vectors.dtype == dtype
        vectors.sum().backward()
        start = embedding.threshold.detach().clone()
        torch.optim.SGD([embedding.threshold], lr=1e-3).step()
        assert (embedding.threshold != start).any()


@pytest.mark.parametrize("ids", [torch.tensor([0.0, 1.7]), torch.tensor([True, False])])
@pytest.mark.parametrize("codes", [None, np.zeros((40, 2), dtype=np.int32)])
def test_ids_that_are_no_whole_numbers_are_refused(ids: torch.Tensor, codes: Any):
    embedding = CompositionalEmbedding(40, 4, buckets=8, codes=codes)
    with pytest.raises(DataError, match="ids must be whole numbers"):
        embedding(ids)


def test_a_masked_state_takes_the_room_of_its_values_and_bits():
    embedding = large("masked")
    state = embedding.state_dict()
    assert state["weight"].shape == (900,)
    assert state["mask"].shape == (embedding.weight.numel() // 8,)
    assert state["mask"].dtype == torch.uint8
    fresh = large("dense", seed=3)
    fresh.load_state_dict(state)
    assert torch.equal(fresh.weight, embedding.weight)
    assert torch.equal(fresh.mask, embedding.mask)


def test_a_masked_state_from_before_it_was_packed_is_read():
    embedding = large("masked")
    whole = embedding.state_dict(keep_vars=True)
    assert whole["weight"] is embedding.weight
    fresh = large("dense", seed=3)
    fresh.load_state_dict(whole)
    assert torch.equal(fresh.table(), embedding.table())


def test_a_masked_state_of_another_size_is_refused():
    other = CompositionalEmbedding(4000, 8, buckets=100)
    with pytest.raises(RuntimeError, match="size mismatch for weight"):
        other.load_state_dict(large("masked").state_dict())


def test_codes_are_saved_in_as_few_bytes_as_they_take():
    codes = np.arange(80, dtype=np.int32).reshape(40, 2) % 9
    embedding = CompositionalEmbedding(40, 4, buckets=9, codes=codes)
    state = embedding.state_dict()
    assert state["codes"].dtype == torch.uint8
    fresh = CompositionalEmbedding(40, 4, buckets=9, codes=np.zeros_like(codes))
    fresh.load_state_dict(state)
    assert torch.equal(fresh.codes, torch.from_numpy(codes))
    assert fresh.codes.dtype == torch.int32


def test_rows_that_are_kept_are_those_of_loaded_positions():
    embedding = CompositionalEmbedding(ENTITIES, DIM, buckets=7, generator=seeded(0))
    embedding(ALL_IDS)  # rows of its own order are kept from here on
    other = CompositionalEmbedding(ENTITIES, DIM, buckets=7, positions=ORDER)
    embedding.load_state_dict(other.state_dict())
    assert torch.equal(embedding(ALL_IDS), other(ALL_IDS))


def test_more_ids_than_are_kept_have_the_same_rows(monkeypatch: pytest.MonkeyPatch):
    embedding = CompositionalEmbedding(ENTITIES, DIM, buckets=7, positions=ORDER)
    kept = embedding(ALL_IDS)
    monkeypatch.setattr("cerp.models.embeddings.codebook_rows.KEPT_ROWS", ENTITIES - 1)
    assert torch.equal(embedding(ALL_IDS), kept)
    for outside in (-1, ENTITIES):
        with pytest.raises(IndexError):
            embedding(torch.tensor([outside]))


def test_all_ids_at_once_have_the_gradients_of_plain_lookups():
    codes = np.random.default_rng(0).integers(0, 5, (ENTITIES, 3))
    embedding = CompositionalEmbedding(ENTITIES, DIM, codes=codes, generator=seeded(0))
    ids = torch.cat([ALL_IDS, ALL_IDS[:5]])
    gradient = torch.randn(len(ids), DIM, generator=seeded(1))
    embedding(ids).backward(gradient)
    wanted = torch.zeros_like(embedding.weight)
    for book, rows in enumerate(torch.from_numpy(codes)[ids].unbind(1)):
        wanted.index_add_(0, rows + 5 * book, gradient)
    torch.testing.assert_close(embedding.weight.grad, wanted)


@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("is_coded", [False, True])
def test_every_kind_can_be_exported_for_any_number_of_ids(is_coded: bool, is_masked: bool):
    codes = np.random.default_rng(0).integers(0, 5, (ENTITIES, 3))
    how: dict[str, Any] = {"codes": codes} if is_coded else {"buckets": 7}
    embedding = CompositionalEmbedding(ENTITIES, DIM, generator=seeded(0), **how)
    if is_masked:
        embedding.project(40)
    number = torch.export.Dim("number", min=2, max=1000)
    program = torch.export.export(embedding, (ALL_IDS[:3],), dynamic_shapes=({0: number},))
    torch.testing.assert_close(program.module()(ALL_IDS), embedding(ALL_IDS))
