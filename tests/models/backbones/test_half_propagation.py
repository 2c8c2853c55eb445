from __future__ import annotations

import numpy as np
import pytest
import torch

from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.models.backbones.half_propagation import Walk, inverse_power
from cerp.models.backbones.propagation import Graph
from cerp.models.sparse import Csr

USERS, ITEMS, LAYERS = 150, 200, 4


def skewed_graph() -> Graph:
    """Item k is taken by about 80% / (k + 1) of the users; many items by none."""
    chance = 0.8 / np.arange(1, ITEMS + 1)
    user, item = np.nonzero(np.random.default_rng(0).random((USERS, ITEMS)) < chance)
    return Graph(
        Interactions.from_codes(user, item, users=Ids.range(USERS), items=Ids.range(ITEMS))
    )


def scores_and_gradient(
    graph: Graph, table: torch.Tensor, incoming: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of user b against items b and 0, for all users."""
    table = table.clone().requires_grad_()
    items = torch.stack([torch.arange(USERS), torch.zeros(USERS, dtype=torch.int64)], dim=1)
    blocks = torch.split(table[graph.entities], 16, dim=1)
    nodes = graph.nodes[: len(incoming)], graph.nodes[USERS:][items[: len(incoming)]]
    scores = graph.pair_scores(blocks, LAYERS, *nodes)
    (gradient,) = torch.autograd.grad((scores * incoming).sum(), table)
    return scores.detach(), gradient


def random_table() -> torch.Tensor:
    return torch.randn(USERS + ITEMS, 40, generator=torch.Generator().manual_seed(0))


def relative_error(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1.0, 1e3, 1e9])
@pytest.mark.parametrize("slope", [1e-9, 1.0, 1e6])
def test_whatever_the_size_of_weights_and_gradients_the_error_is_below_a_thousandth(
    size: float, slope: float
):
    graph, table = skewed_graph(), size * random_table()
    incoming = slope * torch.rand(USERS, 2, generator=torch.Generator().manual_seed(1))
    found = scores_and_gradient(graph, table, incoming)
    exact = scores_and_gradient(graph, table.double(), incoming.double())
    assert all(relative_error(*pair) < 1e-3 for pair in zip(found, exact, strict=True))


def test_what_float32_is_given_is_stored_in_half_precision_and_float64_is_not():
    graph, table, incoming = skewed_graph(), random_table(), torch.ones(USERS, 2)
    short, _ = scores_and_gradient(graph, table, incoming)
    exact, _ = scores_and_gradient(graph, table.double(), incoming.double())
    assert short.dtype == torch.float32
    assert relative_error(short, exact) > 1e-5  # float32 throughout would be a hundred times closer


def test_a_hub_whose_neighbours_all_agree_does_not_overflow():
    # One user with 5,000 items, all vectors equal: no sum over neighbours could be larger.
    count = 5000
    items = np.arange(count)
    graph = Graph(
        Interactions.from_codes(0 * items, items, users=Ids.range(1), items=Ids.range(count))
    )
    hub = graph.nodes[:1]
    scores = graph.pair_scores([torch.full((count + 1, 1), 1e4)], 1, hub, hub[:, None])
    # Â e = (√n, 1/√n, ...) times 1e4 for e = 1e4; one layer: z = 1e4 (1 + √n) / 2.
    torch.testing.assert_close(
        scores, torch.tensor([[(1e4 * (1 + count**0.5) / 2) ** 2]]), rtol=1e-3, atol=0
    )


def test_degrees_beyond_float16_are_divided_by_as_they_are():
    # A star of 100,000 leaves, all with the vector 1: float16 ends at 65,504.
    leaves = 100_000
    offsets = torch.cat([torch.tensor([0]), torch.arange(leaves, 2 * leaves + 1)])
    columns = torch.cat([torch.arange(1, leaves + 1), torch.zeros(leaves, dtype=torch.int64)])
    walk = Walk.on(Csr(offsets, columns))
    start = torch.full((leaves + 1, 1), 2.0**-4).half()  # a sum of 6,250 fits
    # A step of the walk keeps a table of equal vectors.
    torch.testing.assert_close(walk.sum_of_powers(start, 2), 2 * start, rtol=1e-3, atol=0)


def test_pruned_to_nothing_scores_and_gradient_are_zero():
    zeros = torch.zeros(USERS + ITEMS, 40)
    scores, gradient = scores_and_gradient(skewed_graph(), zeros, torch.ones(USERS, 2))
    assert not scores.any()
    assert not gradient.any()


def test_a_process_without_a_share_of_the_batch_has_no_gradient():
    nobody = torch.ones(0, 2)
    scores, gradient = scores_and_gradient(skewed_graph(), random_table(), nobody)
    assert scores.shape == (0, 2)
    assert not gradient.any()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_show_in_the_scores(bad: float):
    table = random_table()
    table[0] = bad
    scores, _ = scores_and_gradient(skewed_graph(), table, torch.ones(USERS, 2))
    assert not torch.isfinite(scores[0]).all()


def test_inverse_powers_by_hand():
    # 2 · 0.3 < 1 but 4 · 0.3 > 1; 1 is no longer below 1 at p = 1; nothing scales nothing up.
    assert [inverse_power(bound) for bound in (0.3, 1.0, 3.0)] == [2.0, 0.5, 0.25]
    assert inverse_power(0.0) == inverse_power(2.0**-100)
