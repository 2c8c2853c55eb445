from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.models.backbones.propagation import Graph, near_neighbours
from cerp.models.sparse import Csr, reordered

NUM_USERS, NUM_ITEMS = 7, 9
CELLS = [(u, i) for u in range(NUM_USERS) for i in range(NUM_ITEMS)]


def interactions(pairs: list[tuple[int, int]]) -> Interactions:
    user, item = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Interactions.from_codes(
        user, item, users=Ids.range(NUM_USERS), items=Ids.range(NUM_ITEMS)
    )


def dense_mean_of_powers(pairs: list[tuple[int, int]], layers: int) -> torch.Tensor:
    """1/(L+1) Σ (D^-1/2 A D^-1/2)^l as a float64 matrix, straight from the definition."""
    adjacency = np.zeros((NUM_USERS + NUM_ITEMS,) * 2)
    for user, item in pairs:
        adjacency[user, NUM_USERS + item] = adjacency[NUM_USERS + item, user] = 1
    degree = adjacency.sum(axis=1)
    scale = np.divide(1, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    normalised = scale[:, None] * adjacency * scale
    powers = [np.linalg.matrix_power(normalised, power) for power in range(layers + 1)]
    return torch.from_numpy(np.mean(powers, axis=0))


def table(dim: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(NUM_USERS + NUM_ITEMS, dim, dtype=dtype, generator=generator)


SPARSE = [(0, 0), (0, 3), (1, 3), (2, 3), (2, 8), (3, 1), (3, 8), (5, 0)]
"""Users 4 and 6 and items 2, 4, 5, 6, 7 have no edges."""


@settings(deadline=None)  # the first product of a process takes half a second
@given(st.sets(st.sampled_from(CELLS)), st.integers(1, 5), st.sampled_from([1, 3, 64, 65, 130]))
def test_propagation_is_the_mean_of_the_powers_of_the_dense_adjacency(
    pairs: set[tuple[int, int]], layers: int, dim: int
):
    propagated = Graph(interactions(list(pairs))).propagate(table(dim), layers)
    expected = dense_mean_of_powers(list(pairs), layers) @ table(dim).double()
    torch.testing.assert_close(propagated.double(), expected, rtol=0, atol=1e-6)


def test_one_edge_by_hand():
    graph = Graph(Interactions.from_codes([0, 0], [0, 1], users=Ids.range(1), items=Ids.range(2)))
    # Â = [[0, 1/√2, 1/√2], [1/√2, 0, 0], [1/√2, 0, 0]]; one layer: (E + ÂE) / 2.
    propagated = graph.propagate(torch.tensor([[2.0], [1.0], [3.0]]), 1)
    root = 2**0.5
    expected = [[(2 + 4 / root) / 2], [(1 + 2 / root) / 2], [(3 + 2 / root) / 2]]
    torch.testing.assert_close(propagated, torch.tensor(expected))


def test_a_node_without_edges_keeps_its_share_of_itself():
    before = table(5)
    after = Graph(interactions(SPARSE)).propagate(before, 4)
    alone = [4, 6, *(NUM_USERS + item for item in (2, 4, 5, 6, 7))]
    torch.testing.assert_close(after[alone], before[alone] / 5)


FIRST = torch.tensor([0, 3, 0])
SECOND = torch.tensor([[7, 10], [15, 7], [10, 11]])
"""Pairs of entities: user 0 occurs twice, (0, 10) occurs twice, and 11 has no edges."""


def pair_scores(graph: Graph, start: torch.Tensor, layers: int, width: int) -> torch.Tensor:
    blocks = torch.split(start[graph.entities], width, dim=1)
    first, second = FIRST.to(start.device), SECOND.to(start.device)
    return graph.pair_scores(blocks, layers, graph.nodes[first], graph.nodes[second])


def test_pair_scores_are_dot_products_of_propagated_rows():
    graph, start = Graph(interactions(SPARSE)), table(70, torch.float64)
    propagated = graph.propagate(start, 3)
    expected = (propagated[FIRST][:, None] * propagated[SECOND]).sum(dim=-1)
    scores = pair_scores(graph, start, 3, width=32)
    torch.testing.assert_close(scores, expected)


@pytest.mark.parametrize("dim", [3, 33])
def test_pair_scores_have_the_right_gradient(dim: int):
    graph, start = Graph(interactions(SPARSE)), table(dim, torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: pair_scores(graph, x, 3, width=2), start)


def test_a_table_that_is_not_contiguous_is_propagated_as_its_copy_is():
    graph, across = Graph(interactions(SPARSE)), table(70).T.contiguous().T
    assert not across.is_contiguous()
    assert torch.equal(graph.propagate(across, 2), graph.propagate(across.contiguous(), 2))


def test_the_order_of_the_edges_does_not_matter():
    shuffled = [SPARSE[k] for k in np.random.default_rng(0).permutation(len(SPARSE))]
    first, second = (Graph(interactions(pairs)) for pairs in (SPARSE, shuffled))
    assert torch.equal(first.propagate(table(8), 4), second.propagate(table(8), 4))


def test_on_cpu_repeated_passes_agree_in_every_bit():
    graph, start = Graph(interactions(CELLS[::2])), table(130).requires_grad_()

    def pass_through() -> tuple[torch.Tensor, torch.Tensor]:
        scores = pair_scores(graph, start, 4, width=32)
        (gradient,) = torch.autograd.grad(scores.square().sum(), start)
        return scores, gradient

    assert all(map(torch.equal, pass_through(), pass_through()))


def test_the_product_of_gpus_agrees_with_that_of_cpus():
    graph = Graph(interactions(SPARSE))
    adjacency = Csr(graph.offsets, graph.columns, graph.values)
    bags, vendor = adjacency._bags(table(6)), adjacency._vendor(table(6)) @ table(6)
    torch.testing.assert_close(bags, vendor, rtol=0, atol=1e-6)


@given(st.permutations(range(5)))
def test_rows_are_reordered_and_so_is_their_gradient(order: list[int]):
    rows = torch.arange(10.0).view(5, 2).requires_grad_()
    result = reordered(rows, torch.tensor(order))
    result.backward(result.detach())
    assert result.tolist() == [rows[place].tolist() for place in order]
    assert torch.equal(rows.grad, rows)


def test_the_graph_travels_with_the_module_but_not_with_its_state():
    graph = Graph(interactions(SPARSE))
    names = {name for name, _ in graph.named_buffers()}
    assert names == {"offsets", "columns", "values", "entities", "nodes"}
    assert graph.state_dict() == {}


def test_groups_without_edges_between_them_are_pulled_apart():
    # Even users take even items, odd users odd ones; user 6 takes none.
    train = interactions([(u, i) for u, i in CELLS if u < 6 and (u - i) % 2 == 0])
    line = near_neighbours(train)
    users, items = line[line < NUM_USERS], line[line >= NUM_USERS] - NUM_USERS
    assert [u % 2 for u in users if u != 6] == [0, 0, 0, 1, 1, 1]
    assert [i % 2 for i in items] == [0, 0, 0, 0, 0, 1, 1, 1, 1]


def test_each_half_of_the_nodes_has_half_of_the_edges():
    # 3 users take each of 9 items: 27 edges, of which a user has 9 and an item 3. Six of the
    # twelve nodes have half of the 54 ends with one user and five items (24), or two and four (30).
    user, item = np.divmod(np.arange(27), 9)
    train = Interactions.from_codes(user, item, users=Ids.range(3), items=Ids.range(9))
    offsets = Graph(train).offsets
    assert int(offsets[6]) in (24, 30)


@given(st.sets(st.sampled_from(CELLS), min_size=1))
def test_halves_differ_by_no_more_edges_than_a_node_has(pairs: set[tuple[int, int]]):
    graph = Graph(interactions(list(pairs)))
    first_half = int(graph.offsets[-(-graph.num_nodes // 2)])
    second_half = 2 * len(pairs) - first_half
    assert abs(first_half - second_half) <= int(graph.offsets.diff().max())


@given(st.sets(st.sampled_from(CELLS)))
def test_every_entity_is_one_node(pairs: set[tuple[int, int]]):
    graph = Graph(interactions(list(pairs)))
    assert sorted(graph.entities.tolist()) == list(range(NUM_USERS + NUM_ITEMS))
    assert torch.equal(graph.entities[graph.nodes], torch.arange(NUM_USERS + NUM_ITEMS))


@pytest.mark.gpu
@pytest.mark.parametrize("dim", [3, 65, 128])
def test_on_the_gpu_scores_and_gradient_are_those_of_the_cpu(dim: int):
    graph, results = Graph(interactions(SPARSE)), []
    for device in ("cpu", "cuda"):
        # In float32 the CPU would store half precision.
        dtype = torch.float64 if device == "cpu" else torch.float32
        start = table(dim).to(device, dtype).requires_grad_()
        scores = pair_scores(graph.to(device), start, 4, width=dim)
        (gradient,) = torch.autograd.grad(scores.square().sum(), start)
        results.append((scores.detach().cpu().float(), gradient.cpu().float()))
    for on_cpu, on_gpu in zip(*results, strict=True):
        torch.testing.assert_close(on_cpu, on_gpu, rtol=1e-5, atol=1e-5)
