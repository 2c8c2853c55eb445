"""The sharpened filter: against dense matrices and loops, and an answer worked out in view."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerp.errors import ConfigError
from cerp.evaluation.evaluate import evaluate
from cerp.graph.arithmetic import inverse_power
from cerp.graph.edges import Edges
from cerp.graph.filter import Exponents, GraphFilter
from cerp.graph.search import search_exponents
from cerp.graph.search_sharpening import FoundSharpening, search_sharpening
from cerp.graph.sharpening import BATCH, ItemHops, Sharpening
from cerp.graph.term import FilterTerm, Mixing
from cerp.graph.term_facts import term_facts, term_of_facts
from small_graphs import edges_of, splits_of, taken_matrices

EXPONENTS = Exponents(0.5, 0.75, 0.25)
exponents = st.builds(Exponents, *[st.floats(0, 2)] * 3)
sharpenings = st.builds(Sharpening, st.floats(0, 2), st.floats(0, 2), st.integers(1, 2))


def item_matrix(taken: npt.NDArray[np.bool_], q: float, m: float) -> npt.NDArray[np.float64]:
    """``Rᵀ D_u^-q R D^-m`` written out."""
    ratings = taken.astype(np.float64)
    by_user = inverse_power(taken.sum(axis=1), q)
    by_item = inverse_power(taken.sum(axis=0), m)
    return ratings.T @ (by_user[:, None] * ratings) * by_item


def plain_strengths(
    edges: Edges, history: list[int], chosen: Exponents, sharpening: Sharpening
) -> list[float]:
    """The definition in loops, as another language would write it."""
    middle = inverse_power(edges.user_degrees, chosen.q).tolist()
    lent = inverse_power(edges.item_degrees, sharpening.m).tolist()
    end = inverse_power(edges.item_degrees, chosen.r).tolist()
    start = inverse_power(edges.item_degrees, chosen.p).tolist()
    users = range(edges.num_users)

    def back(reach: list[float]) -> list[float]:
        sums = [0.0] * edges.num_items
        for user in users:
            for item in edges.history(user):
                sums[item] += reach[user] * middle[user]
        return sums

    reach = [0.0] * edges.num_users
    for item in sorted(history):
        for user in users:
            if item in edges.history(user):
                reach[user] += start[item]
    found = back(reach)
    for _ in range(sharpening.times):
        reach = [0.0] * edges.num_users
        for user in users:
            for item in edges.history(user):
                reach[user] += found[item] * lent[item]
        taken_away = back(reach)
        found = [
            one - sharpening.strength * two for one, two in zip(found, taken_away, strict=True)
        ]
    return [float(np.float32(max(0.0, one) * by)) for one, by in zip(found, end, strict=True)]


def everyone(edges: Edges) -> npt.NDArray[np.int32]:
    return np.arange(edges.num_users, dtype=np.int32)


def test_a_known_answer():
    # Two users: 0 has items 0 and 1, 1 has items 1 and 2. All exponents 0: K = RᵀR =
    # [[1, 1, 0], [1, 2, 1], [0, 1, 1]]. User 0: s = K (1, 1, 0) = (2, 3, 1); K s = (5, 9, 4);
    # with t = 1/4, y = s - K s / 4 = (3/4, 3/4, 0): item 2 is what user 0 owes to the others alone.
    edges = edges_of(np.array([[1, 1, 0], [0, 1, 1]], dtype=bool))
    model = GraphFilter(edges, Exponents(0, 0, 0), Sharpening(0, 0.25, 1))
    assert model.strengths(everyone(edges))[0].tolist() == [0.75, 0.75, 0]
    # Once more from y: K y = (3/2, 9/4, 3/4), so (3/8, 3/16, -3/16), and 0 at least.
    twice = GraphFilter(edges, Exponents(0, 0, 0), Sharpening(0, 0.25, 2))
    assert twice.strengths(everyone(edges))[0].tolist() == [0.375, 0.1875, 0]
    # Where nothing is left, popularity ranks: item 2 was taken once.
    assert model.score_all(everyone(edges))[0].tolist() == [0.75, 0.75, -0.5]


@given(taken_matrices(), exponents, sharpenings)
def test_strengths_are_those_of_the_dense_polynomial(
    taken: npt.NDArray[np.bool_], chosen: Exponents, sharpening: Sharpening
):
    edges = edges_of(taken)
    lending = item_matrix(taken, chosen.q, sharpening.m)
    step = np.eye(edges.num_items) - sharpening.strength * lending
    sums = item_matrix(taken, chosen.q, chosen.p) @ taken.T.astype(np.float64)
    scale = np.linalg.matrix_power(np.abs(step), sharpening.times) @ sums
    end = inverse_power(edges.item_degrees, chosen.r)[:, None]
    wanted = np.maximum(0, np.linalg.matrix_power(step, sharpening.times) @ sums) * end
    found = GraphFilter(edges, chosen, sharpening).strengths(everyone(edges))
    # What is subtracted from itself is as exact as what it is subtracted from.
    assert (np.abs(found.T - wanted) <= 1e-6 * wanted + 1e-12 * scale).all()


@given(taken_matrices(), exponents, sharpenings)
def test_strengths_are_those_of_the_plain_loops_to_the_bit(
    taken: npt.NDArray[np.bool_], chosen: Exponents, sharpening: Sharpening
):
    edges = edges_of(taken)
    found = GraphFilter(edges, chosen, sharpening).strengths(everyone(edges))
    for user, row in enumerate(found):
        history = edges.history(user).tolist()
        assert row.tolist() == plain_strengths(edges, history, chosen, sharpening)


@given(taken_matrices(), exponents, st.integers(1, 4))
def test_numpy_alone_gives_the_same_bits_as_scipy(
    taken: npt.NDArray[np.bool_], chosen: Exponents, columns: int
):
    edges = edges_of(taken)
    values = np.random.default_rng(columns).normal(size=(edges.num_items, columns))
    with_scipy = ItemHops(edges, chosen.q, chosen.p)
    assert with_scipy.use_scipy
    alone = ItemHops(edges, chosen.q, chosen.p, use_scipy=False)
    assert with_scipy.of(values).tolist() == alone.of(values).tolist()


@given(taken_matrices(), exponents)
def test_a_strength_of_0_is_the_plain_filter(taken: npt.NDArray[np.bool_], chosen: Exponents):
    edges = edges_of(taken)
    blunt = GraphFilter(edges, chosen, Sharpening(0.5, 0, 2))
    users = everyone(edges)
    assert blunt.score_all(users).tolist() == GraphFilter(edges, chosen).score_all(users).tolist()


def test_more_histories_than_a_batch_are_the_same_as_one_by_one():
    edges = Edges.of(splits_of(0, users=2 * BATCH + 3).train)
    model = GraphFilter(edges, EXPONENTS, Sharpening(0.75, 0.3, 2))
    together = model.score_all(everyone(edges))
    for user in (0, BATCH - 1, BATCH, 2 * BATCH + 2):
        assert model.score_all(np.array([user], np.int32))[0].tolist() == together[user].tolist()


def test_lists_are_those_of_the_scores():
    edges = Edges.of(splits_of(1).train)
    model = GraphFilter(edges, EXPONENTS, Sharpening(0.75, 0.5, 1))
    histories = [edges.history(user) for user in range(edges.num_users)]
    scores = model.score_all(everyone(edges))
    for row, history in zip(scores, histories, strict=True):
        row[history] = -np.inf
    items, found = model.best(histories, 5)
    wanted = np.argsort(-scores, axis=1, kind="stable")[:, :5]
    assert items.tolist() == wanted.tolist()
    assert found.tolist() == np.take_along_axis(scores, wanted, axis=1).tolist()


@given(taken_matrices())
def test_the_radius_is_the_largest_eigenvalue(taken: npt.NDArray[np.bool_]):
    hops = ItemHops(edges_of(taken), 1, 0)
    wanted = np.abs(np.linalg.eigvals(item_matrix(taken, 1, 0))).max()
    # The iteration may not have come far between two eigenvalues that are close.
    assert hops.radius() == pytest.approx(wanted or 1.0, rel=0.05)


@pytest.mark.parametrize(("strength", "times"), [(-0.1, 1), (2000, 1), (1, 0), (1, 3)])
def test_a_sharpening_has_bounds(strength: float, times: int):
    with pytest.raises(ConfigError, match="a filter is sharpened by a strength from 0 to 1,024"):
        Sharpening(0.5, strength, times)


def test_numbers_stay_finite_at_the_bounds():
    edges = edges_of(np.ones((40, 40), dtype=bool))
    model = GraphFilter(edges, Exponents(0, 0, 0), Sharpening(0, 1024, 2))
    found = model.strengths(everyone(edges))
    assert np.isfinite(found).all()
    assert (found > 0).all()


# The search


@pytest.fixture(scope="module")
def found() -> FoundSharpening:
    splits = splits_of(0)
    return search_sharpening(splits, search_exponents(splits, quiet=True), quiet=True)


def test_the_score_is_that_of_the_model_found(found: FoundSharpening):
    splits = splits_of(0)
    model = GraphFilter(Edges.of(splits.train), found.exponents, found.sharpening)
    judged = evaluate(model, splits, on="valid")
    assert found.score == pytest.approx(judged.mean["ndcg@10"])
    assert found.score >= found.plain_score


def test_trials_are_judged_as_the_model_is():
    splits = splits_of(3)
    plain = search_exponents(splits, quiet=True)
    edges = Edges.of(splits.train)
    for trial in search_sharpening(splits, plain, quiet=True).trials[:4]:
        model = GraphFilter(edges, trial.exponents, trial.sharpening)
        assert trial.score == pytest.approx(evaluate(model, splits, on="valid").mean["ndcg@10"])


def test_the_plain_filter_stays_where_sharpening_does_not_help_clearly():
    splits = splits_of(0)
    plain = search_exponents(splits, quiet=True)
    # One user's lists cannot tell anything apart by a standard error.
    alone = replace(splits, valid=splits.valid.subset(splits.valid.user == splits.valid.user[0]))
    found = search_sharpening(alone, plain, quiet=True)
    assert found.sharpening is None
    assert found.exponents == plain.exponents
    assert found.score == found.plain_score


# As plain numbers


@pytest.mark.parametrize("sharpening", [None, Sharpening(0.75, 0.06, 2)])
@pytest.mark.parametrize("mixing", [None, Mixing(2.5, 0.01)])
def test_a_term_comes_back_from_its_facts(sharpening: Sharpening | None, mixing: Mixing | None):
    term = FilterTerm(EXPONENTS, mixing, sharpening)
    assert term_of_facts({**term_facts(term), "seconds": 3}) == term
