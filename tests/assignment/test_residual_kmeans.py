from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cerp.assignment.codes import Codes, distinct_keys
from cerp.assignment.nearest_rows import CHUNK_BYTES, nearest_rows
from cerp.assignment.residual_kmeans import graph_codes, learn_codes
from cerp.assignment.seeds import Seeds
from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError, DataError


def cloud(count: int = 400, dim: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, dim)).astype(np.float32), rng.uniform(0.5, 6, count)


def planted(books: list[np.ndarray]) -> np.ndarray:
    """Every sum of one row from each of two books."""
    return (books[0][:, None] + books[1][None]).reshape(-1, books[0].shape[1])


def weighted_error(x: np.ndarray, weights: np.ndarray, found: Codes) -> float:
    missed = np.square(x.astype(np.float64) - found.vectors()).sum(axis=1)
    return float((weights * missed).sum() / (weights * np.square(x).sum(axis=1)).sum())


def test_sums_of_planted_books_are_found_again():
    # Two books of 4 rows in planes of their own, the first ten times as large: 16 sums, twice.
    large = np.array([[10, 0, 0, 0], [-10, 0, 0, 0], [0, 10, 0, 0], [0, -10, 0, 0]], np.float32)
    small = np.array([[0, 0, 1, 0], [0, 0, -1, 0], [0, 0, 0, 1], [0, 0, 0, -1]], np.float32)
    x = np.tile(planted([large, small]), (2, 1))
    found = learn_codes(x, books=2, rows=4)
    assert found.error < 1e-12
    assert np.allclose(found.vectors(), x, atol=1e-4)
    assert found.shared == 32  # each of the 16 sums belongs to two entities


def test_one_book_is_plain_weighted_k_means():
    x, weights = cloud()
    found = learn_codes(x, weights, books=1, rows=8, iterations=200, rounds=0)
    code, book = found.codes[:, 0], found.books[0].astype(np.float64)
    # Lloyd's fixed point, written out: nearest rows, and rows at their weighted means.
    distance = np.square(x[:, None].astype(np.float64) - book).sum(axis=2)
    assert np.array_equal(distance.argmin(axis=1), code)
    means = [np.average(x[code == row], axis=0, weights=weights[code == row]) for row in range(8)]
    assert np.allclose(means, book, atol=1e-3)


def test_lloyd_steps_are_those_of_an_independent_implementation():
    x, _ = cloud(200, 5)
    weights = np.ones(200)
    step = 2.0 ** (int(np.ceil(np.log2(np.abs(x).max()))) - 18)
    points = np.round(x / step) * step
    grid = torch.from_numpy(points.astype(np.float32))
    seeds = Seeds(grid, torch.ones(200, dtype=torch.float64), step, seed=3).draw(grid, 6, 0)
    book = seeds.numpy().astype(np.float64)
    for _ in range(4):
        code = np.square(points[:, None] - book).sum(axis=2).argmin(axis=1)
        assert np.bincount(code, minlength=6).min() > 0  # else the test would miss a rule
        book = np.stack([points[code == row].mean(axis=0) for row in range(6)])
    found = learn_codes(x, weights, books=1, rows=6, seed=3, iterations=4, rounds=0)
    assert np.array_equal(found.codes[:, 0], code)
    assert np.allclose(found.books[0], book, atol=2 * step)


@settings(max_examples=25)
@given(
    st.integers(0, 10_000),
    st.integers(1, 4),
    st.integers(1, 20),
    st.sampled_from([0.0, 0.5, 3.0]),
)
def test_no_step_raises_the_error(seed: int, books: int, rows: int, spread: float):
    x, _ = cloud(60, 4, seed)
    weights = np.random.default_rng(seed).lognormal(0, spread, 60)
    weights[::7] = 0
    found = learn_codes(x, weights, books=books, rows=rows, seed=seed, iterations=6, rounds=3)
    history = np.array(found.history)
    assert np.all(np.diff(history) <= 1e-12)
    assert abs(found.error - history[-1]) < 1e-12


def test_the_error_is_that_of_the_vectors_and_more_books_miss_less():
    x, weights = cloud()
    found = [learn_codes(x, weights, books=books, rows=16) for books in (1, 2, 4)]
    for codes in found:
        assert abs(codes.error - weighted_error(x, weights, codes)) < 1e-3
    assert found[0].error > 1.5 * found[1].error > 3 * found[2].error
    assert found[2].codes.shape == (400, 4)
    assert found[2].codes.dtype == np.int32
    assert found[2].books.shape == (4, 16, 12)
    assert found[2].books.dtype == np.float32


def test_coordinate_descent_improves_on_books_fitted_one_by_one():
    x, weights = cloud()
    plain = learn_codes(x, weights, books=4, rows=8, rounds=0)
    better = learn_codes(x, weights, books=4, rows=8, rounds=3)
    assert better.error < 0.97 * plain.error


def test_weights_decide_whom_a_row_is_for():
    x = np.array([[1.0], [1.2], [9.0], [9.4]], dtype=np.float32)
    found = learn_codes(x, np.array([1, 3, 1, 1]), books=1, rows=2)
    assert np.allclose(np.sort(found.books[0][:, 0]), [1.15, 9.2], atol=1e-4)


def test_rows_that_nobody_chose_go_to_the_worst_fitted():
    # Six equal points and two far apart from them: with three rows nothing is missed.
    x = np.array([[0.0, 1]] * 6 + [[50, 0], [0, -50]], dtype=np.float32)
    found = learn_codes(x, books=1, rows=3)
    assert found.error < 1e-9
    assert sorted(np.bincount(found.codes[:, 0]).tolist()) == [1, 1, 6]


def test_more_rows_than_entities_and_vectors_of_zeros_do_no_harm():
    x = np.array([[1.0, 0], [0, 2], [0, 0]], dtype=np.float32)
    found = learn_codes(x, books=2, rows=8)
    assert found.error < 1e-9
    nothing = learn_codes(np.zeros((5, 3), dtype=np.float32), books=2, rows=4)
    assert nothing.error == 0
    assert np.array_equal(nothing.vectors(), np.zeros((5, 3)))


def test_the_same_seed_gives_the_same_codes_and_another_one_others():
    x, weights = cloud()
    first, again = (learn_codes(x, weights, rows=16, seed=5) for _ in range(2))
    assert np.array_equal(first.codes, again.codes)
    assert np.array_equal(first.books, again.books)
    assert not np.array_equal(first.codes, learn_codes(x, weights, rows=16, seed=6).codes)


def test_the_number_of_threads_and_the_order_of_sums_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
):
    x, weights = cloud(3000, 40)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = learn_codes(x, weights, rows=32, iterations=8)
        torch.set_num_threads(2)
        two = learn_codes(x, weights, rows=32, iterations=8)
    finally:
        torch.set_num_threads(threads)
    monkeypatch.setitem(CHUNK_BYTES, "cpu", 4 * 32 * 7)
    for file in ("residual_kmeans", "book_fitting"):
        monkeypatch.setattr(f"cerp.assignment.{file}.STRETCH", 11)
    small = learn_codes(x, weights, rows=32, iterations=8)
    for other in (two, small):
        assert np.array_equal(one.codes, other.codes)
        assert np.array_equal(one.books, other.books)


def test_nearest_rows_are_exact_where_single_precision_is_not():
    # Rows that differ by one step of 2^-18 in an entry: in float32 their scores round alike.
    rng = np.random.default_rng(0)
    step = 2.0**-18
    book = np.round(rng.uniform(-1, 1, (1, 256)) / step).repeat(50, axis=0) * step
    book[np.arange(50), np.arange(50)] += step * rng.integers(-3, 4, 50)
    points = np.round((book[rng.integers(50, size=300)] + rng.normal(0, 0.1, (300, 256))) / step)
    points *= step
    exact = np.square(points[:, None] - book).sum(axis=2).argmin(axis=1)
    found = nearest_rows(torch.from_numpy(points).float(), torch.from_numpy(book).float())
    assert np.array_equal(found.numpy(), exact)


def test_a_sample_fits_the_books_where_memory_is_short():
    x, weights = cloud(2000, 8)
    whole = learn_codes(x, weights, books=2, rows=16)
    sampled = learn_codes(x, weights, books=2, rows=16, memory=1000 * 3 * 4 * 8)
    assert whole.fitted_to == 2000
    assert sampled.fitted_to == 1000
    assert abs(sampled.error - weighted_error(x, weights, sampled)) < 1e-3
    assert whole.error < sampled.error < 1.15 * whole.error


def test_a_sample_has_as_many_entities_as_the_rows_need():
    x, weights = cloud(2000, 8)
    found = learn_codes(x, weights, books=2, rows=4, memory=1500 * 3 * 4 * 8)
    assert found.fitted_to == 4 * 256


def test_memory_for_everything_is_the_plain_path():
    x, weights = cloud()
    plain = learn_codes(x, weights, rows=16)
    enough = learn_codes(x, weights, rows=16, memory=400 * 3 * 4 * 12)
    assert np.array_equal(plain.codes, enough.codes)


def test_the_order_of_the_vectors_changes_nothing():
    x, weights = cloud()
    order = np.random.default_rng(2).permutation(400)
    plain = learn_codes(x, weights, rows=16)
    mixed_up = learn_codes(x[order], weights[order], rows=16)
    assert np.array_equal(mixed_up.codes, plain.codes[order])
    assert np.array_equal(mixed_up.books, plain.books)


def test_seeds_are_distinct_and_heavy_points_come_more_often():
    points = torch.tensor([[1.0, 0], [1, 0], [0, 1], [-1, 0], [0, 0]])
    weights = torch.tensor([6.0, 6, 1, 1, 9], dtype=torch.float64)
    first = []
    for seed in range(300):
        drawn = Seeds(points, weights, 2.0**-18, seed).draw(points, 3, 0)
        assert sorted(drawn.tolist()) == [[-1, 0], [0, 1], [1, 0]]  # zero is no choice
        first.append(drawn[0].tolist())
    # The two equal points together have 12 parts of 14.
    assert abs(first.count([1, 0]) / 300 - 12 / 14) < 0.06


def renumbered(data: Interactions, users: np.ndarray, items: np.ndarray) -> Interactions:
    return Interactions.from_codes(
        users[data.user], items[data.item], users=data.users, items=data.items
    )


def test_renumbering_permutes_the_codes_of_a_graph():
    data = synthetic(500, 400, 8000)
    rng = np.random.default_rng(1)
    users, items = rng.permutation(500), rng.permutation(400)
    before = graph_codes(data, rows=32, rank=24)
    after = graph_codes(renumbered(data, users, items), rows=32, rank=24)
    moved = np.concatenate([after.codes[:500][users], after.codes[500:][items]])
    assert np.array_equal(moved, before.codes)
    assert np.array_equal(after.books, before.books)


def test_renumbering_changes_nothing_where_parts_of_the_graph_are_alike():
    # Five pairs of a user and an item of their own: no order can tell them apart.
    data = synthetic(60, 50, 600)
    user = np.concatenate([data.user, np.arange(60, 65)])
    item = np.concatenate([data.item, np.arange(50, 55)])
    data = Interactions.from_codes(user, item, users=Ids.range(65), items=Ids.range(55))
    rng = np.random.default_rng(1)
    users, items = rng.permutation(65), rng.permutation(55)
    before = graph_codes(data, books=2, rows=16, rank=16)
    after = graph_codes(renumbered(data, users, items), books=2, rows=16, rank=16)
    moved = np.concatenate([after.codes[:65][users], after.codes[65:][items]])
    others = np.r_[:60, 65:115]
    assert np.array_equal(moved[others], before.codes[others])
    assert np.array_equal(after.books, before.books)


def test_a_graph_beyond_the_memory_has_codes_from_fewer_dimensions_and_a_sample():
    data = synthetic(2000, 300, 20_000)
    plain = graph_codes(data, books=2, rows=4, rank=40)
    streamed = graph_codes(data, books=2, rows=4, rank=40, memory=2 * 300 * 4 * 20)
    # 20 columns of float32 fit, twice: 20 · 40 / (40 + 32) of them are kept.
    assert (plain.books.shape[2], streamed.books.shape[2]) == (40, 11)
    assert (plain.fitted_to, streamed.fitted_to) == (2300, 2 * 300 * 4 * 20 // (3 * 4 * 11))
    assert streamed.codes.shape == plain.codes.shape
    # Rows fitted to a sixth of the entities miss little more of the others.
    assert streamed.history[-1] < streamed.error < 1.25 * streamed.history[-1]


def test_codes_of_a_graph_put_alike_entities_together():
    # Four blocks in which every user has every item: four distinct vectors, one row each.
    user = np.repeat(np.arange(20), 5)
    item = user // 5 * 5 + np.tile(np.arange(5), 20)
    data = Interactions.from_codes(user, item, users=Ids.range(20), items=Ids.range(20))
    found = graph_codes(data, books=1, rows=4)
    groups = found.codes[:, 0].reshape(8, 5)
    assert all(len(set(group)) == 1 for group in groups.tolist())
    assert np.array_equal(groups[:4, 0], groups[4:, 0])
    assert len(set(groups[:4, 0].tolist())) == 4
    assert found.shared == 40


def test_keys_are_equal_where_all_codes_are():
    codes = np.random.default_rng(0).integers(0, 2, (200, 3)).astype(np.int32) * 2_000_000_000
    # 3 codes of 31 bits: more than 64 bits together.
    keys, rows = distinct_keys(codes), [tuple(row) for row in codes.tolist()]
    for first in range(0, 200, 17):
        same = np.array([row == rows[first] for row in rows])
        assert np.array_equal(keys == keys[first], same)


def test_progress_is_advanced_by_one_in_all():
    class Counter:
        total = 0.0

        def advance(self, amount: float = 1, note: str = "") -> None:
            self.total += amount
            assert note.startswith("error ")

    x, weights = cloud(600, 6)
    for memory in (2**30, 200 * 3 * 4 * 6):
        bar = Counter()
        learn_codes(x, weights, books=3, rows=4, memory=memory, progress=bar)
        assert abs(bar.total - 1) < 1e-9


def test_what_cannot_be_clustered_is_refused():
    x, weights = cloud(10, 3)
    with pytest.raises(ConfigError, match="at least 1 book of 1 row, got 0 books of 4"):
        learn_codes(x, books=0, rows=4)
    with pytest.raises(DataError, match=r"\(9,\) weights for 10 vectors"):
        learn_codes(x, weights[:9], rows=2)
    with pytest.raises(DataError, match="not negative"):
        learn_codes(x, -weights, rows=2)
    x[3, 1] = np.nan
    with pytest.raises(DataError, match="not finite"):
        learn_codes(x, rows=2)
    with pytest.raises(DataError, match=r"\(entities, dimensions\)"):
        learn_codes(x[0], rows=2)


@pytest.mark.gpu
def test_a_gpu_learns_the_same_codes_and_books():
    x, weights = cloud(5000, 64)
    first = learn_codes(x, weights, rows=64)
    second = learn_codes(x, weights, rows=64, device="cuda")
    assert np.array_equal(first.codes, second.codes)
    assert np.array_equal(first.books, second.books)


@pytest.mark.gpu
def test_a_gpu_learns_the_same_codes_of_a_graph():
    data = synthetic(700, 500, 9000)
    first = graph_codes(data, rows=64, rank=40)
    second = graph_codes(data, rows=64, rank=40, device="cuda")
    assert (first.codes == second.codes).mean() > 0.99
    assert abs(first.error - second.error) < 1e-3
