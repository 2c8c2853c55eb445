from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from cerp.assignment.graph_vectors import GraphVectors, graph_vectors
from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError, DataError


def graph(user: list[int], item: list[int], users: int, items: int) -> Interactions:
    return Interactions.from_codes(user, item, users=Ids.range(users), items=Ids.range(items))


def renumbered(data: Interactions, users: np.ndarray, items: np.ndarray) -> Interactions:
    return Interactions.from_codes(
        users[data.user], items[data.item], users=data.users, items=data.items
    )


def normalised(data: Interactions) -> csr_array:
    """D_u^(-1/2) R D_i^(-1/2), written out."""
    user_degree, item_degree = np.diff(data.user_offsets), data.item_counts
    values = 1 / np.sqrt(user_degree[data.user] * item_degree[data.item])
    return csr_array((values, (data.user, data.item)), shape=(data.num_users, data.num_items))


def by_definition(data: Interactions, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Σ, and scores ⟨x_u, y_i⟩ with x_u = Σ d_i^(-1/2) V_i and y_i = d_i^(1/2) V_i."""
    _, singular, right = np.linalg.svd(normalised(data).toarray(), full_matrices=False)
    vectors = right[:rank].T
    degree = np.maximum(data.item_counts, 1)[:, None]
    interactions = csr_array((np.ones(len(data)), (data.user, data.item)))
    interactions.resize((data.num_users, data.num_items))
    return singular[:rank], interactions @ (vectors / np.sqrt(degree)) @ (
        vectors * np.sqrt(degree)
    ).T


@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
def test_small_graphs_match_the_definition(shape: tuple[int, int]):
    # All columns of the smaller side are in the block, so the triples are exact.
    data = synthetic(*shape, 500)
    found = graph_vectors(data, rank=12, unit=False)
    singular, scores = by_definition(data, 12)
    table = found.table()
    assert np.allclose(found.singular_values, singular, atol=1e-10)
    assert np.allclose(table[: shape[0]] @ table[shape[0] :].T, scores, atol=1e-5)


@pytest.mark.parametrize("shape", [(700, 500), (500, 700)])
def test_larger_graphs_find_the_subspace_of_an_independent_svd(shape: tuple[int, int]):
    data = synthetic(*shape, 9000)
    found = graph_vectors(data, rank=20, unit=False, iterations=12)
    _, singular, right = svds(normalised(data), k=20, random_state=0)
    assert np.allclose(found.singular_values, np.sort(singular)[::-1], atol=1e-8)
    items = found.table()[shape[0] :] / np.sqrt(np.maximum(data.item_counts, 1))[:, None]
    assert subspace_angles(items, right.T).max() < 1e-4


def test_few_iterations_come_near_the_largest_singular_values():
    data = synthetic(700, 500, 9000)
    singular = np.sort(svds(normalised(data), k=20, random_state=0)[1])[::-1]
    found = graph_vectors(data, rank=20).singular_values
    assert np.all(found <= singular + 1e-9)  # Ritz values come from below
    assert np.allclose(found, singular, rtol=0.01)


def test_vectors_have_length_one_and_are_zero_without_edges():
    data = graph([0, 0, 1, 3], [0, 1, 1, 3], users=5, items=4)
    length = np.linalg.norm(graph_vectors(data, rank=3).table(), axis=1)
    # Users 2 and 4 and item 2 have no edges.
    assert np.allclose(length, [1, 1, 0, 1, 0, 1, 1, 0, 1], atol=1e-6)


def test_the_rank_is_at_most_that_of_the_graph():
    # Two blocks in which every user has every item: the matrix has rank 2.
    user = [u for u in range(6) for _ in range(3)]
    item = [i + 3 * (u // 3) for u in range(6) for i in range(3)]
    found = graph_vectors(graph(user, item, 6, 6), rank=4)
    assert found.rank == 2
    assert np.allclose(found.singular_values, [1, 1])
    table = found.table()
    within, across = table[0] @ table[[1, 2, 6, 7, 8]].T, table[0] @ table[[3, 4, 5, 9]].T
    assert np.allclose(within, 1, atol=1e-6)
    assert np.allclose(across, 0, atol=1e-6)


@pytest.mark.parametrize("shape", [(500, 400), (400, 500)])
def test_renumbering_permutes_the_vectors_bit_by_bit(shape: tuple[int, int]):
    data = synthetic(*shape, 8000)
    rng = np.random.default_rng(1)
    users, items = rng.permutation(shape[0]), rng.permutation(shape[1])
    before = graph_vectors(data, rank=30).table()
    after = graph_vectors(renumbered(data, users, items), rank=30).table()
    moved = np.concatenate([after[: shape[0]][users], after[shape[0] :][items]])
    assert np.array_equal(moved, before)


def test_twins_that_no_order_can_tell_apart_have_one_vector():
    data = graph([0, 0, 1, 1, 2, 2, 3], [0, 1, 0, 1, 1, 2, 2], users=4, items=3)
    table = graph_vectors(data, rank=3).table()
    assert np.allclose(table[0], table[1], atol=1e-6)  # users 0 and 1 have items 0 and 1
    assert not np.allclose(table[0], table[2], atol=1e-2)


def test_the_seed_turns_the_vectors_and_nothing_else():
    data = synthetic(60, 40, 500)
    first, again = graph_vectors(data, rank=8).table(), graph_vectors(data, rank=8).table()
    other = graph_vectors(data, rank=8, seed=1).table()
    assert np.array_equal(first, again)
    assert not np.allclose(first, other, atol=1e-2)
    assert np.allclose(first @ first.T, other @ other.T, atol=1e-5)


def test_the_number_of_threads_changes_next_to_nothing():
    data = synthetic(500, 400, 8000)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = graph_vectors(data, rank=30).table()
        torch.set_num_threads(2)
        two = graph_vectors(data, rank=30).table()
    finally:
        torch.set_num_threads(threads)
    assert np.abs(one - two).max() < 1e-6


def same_space(first: GraphVectors, second: GraphVectors) -> float:
    """The largest angle between the item vectors' subspaces, before they are scaled."""
    return float(subspace_angles(first.basis.numpy(), second.basis.numpy()).max())


def test_less_memory_means_single_precision_and_then_a_lower_rank():
    data = synthetic(700, 500, 9000)
    plain = graph_vectors(data, rank=30)
    block = 500 * (30 + 32)
    single = graph_vectors(data, rank=30, memory=block * 2 * 4)
    lower = graph_vectors(data, rank=30, memory=block * 4)
    assert plain.basis.dtype == torch.float64
    assert single.basis.dtype == torch.float32
    assert single.rank == 30
    assert same_space(plain, single) < 0.02
    assert lower.rank == 15


def test_too_little_memory_names_the_way_out():
    with pytest.raises(ConfigError, match=r'memory=48000 would do.*assignment="hash"'):
        graph_vectors(synthetic(700, 500, 9000), memory=10_000)


def test_some_rows_are_those_of_the_table():
    found = graph_vectors(synthetic(60, 40, 500), rank=8)
    some = np.array([70, 3, 3, 99, 0])
    assert np.array_equal(found.rows(some).numpy(), found.table()[some])


def test_there_must_be_edges_and_a_rank():
    with pytest.raises(DataError, match="no training interactions"):
        graph_vectors(graph([], [], users=3, items=3))
    with pytest.raises(ConfigError, match="rank must be at least 1, got 0"):
        graph_vectors(synthetic(60, 40, 500), rank=0)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(700, 500), (500, 700)])
def test_a_gpu_finds_the_same_vectors(shape: tuple[int, int]):
    data = synthetic(*shape, 9000)
    first = graph_vectors(data, rank=40).table()
    second = graph_vectors(data, rank=40, device="cuda").table()
    assert np.abs(first - second).max() < 1e-6


@pytest.mark.parametrize("shape", [(70, 50), (50, 70)])
def test_damping_adds_mean_degrees_before_the_matrix_is_taken_apart(shape: tuple[int, int]):
    data = synthetic(*shape, 900)
    users, items = shape
    matrix = np.zeros(shape)
    matrix[data.user, data.item] = 1
    of_users, of_items = matrix.sum(1), matrix.sum(0)
    scaled = matrix / np.sqrt(
        np.outer(of_users + 1.5 * of_users.mean(), of_items + 1.5 * of_items.mean())
    )
    left, singular, right = np.linalg.svd(scaled, full_matrices=False)
    found = graph_vectors(data, rank=12, damping=1.5, iterations=8)
    np.testing.assert_allclose(found.singular_values, singular[:12], rtol=1e-6)
    dense = np.concatenate([left[:, :12] * singular[:12], right[:12].T])
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    # Any rotation of the space will do: products of vectors do not see it.
    table = found.table()
    np.testing.assert_allclose(table @ table.T, dense @ dense.T, atol=1e-5)
    assert users + items == len(table)
