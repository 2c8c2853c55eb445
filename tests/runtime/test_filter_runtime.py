"""Recommendations from files with a graph filter: against the definition, one number at a time."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import cerp
from cerp.artifact import ShippedModel
from cerp.errors import ConfigError
from cerp.runtime import Runtime
from golden_filter import FILTER, SHARP_FILTER, filter_model
from small_filters import sharpened, small_filter, small_mixture, small_sums_mixture
from small_models import BACKBONES, NUM_ITEMS, NUM_USERS


def history(model: ShippedModel, user: int) -> list[int]:
    seen = model.seen
    return seen.items[seen.offsets[user] : seen.offsets[user + 1]].tolist()


def defined(model: ShippedModel, items: list[int]) -> np.ndarray:
    """F of all items by the definition; powers by Python's own."""
    takers: dict[int, list[int]] = {item: [] for item in range(len(model.items))}
    for user in range(len(model.users)):
        for item in history(model, user):
            takers[item].append(user)
    q, p, r = (getattr(model.filter.exponents, name) for name in ("q", "p", "r"))
    found = np.zeros(len(model.items))
    for item, users in takers.items():
        for start in items:
            for user in set(users) & set(takers[start]):
                found[item] += len(takers[start]) ** -p * len(history(model, user)) ** -q
        found[item] *= len(users) ** -r if users else 0
    return found


def with_floor(strengths: np.ndarray, model: ShippedModel) -> np.ndarray:
    """Items that no path reaches: below all others, by popularity."""
    degrees = np.bincount(model.seen.items, minlength=len(model.items))
    return np.where(strengths > 0, strengths, -1 / (1 + degrees))


# The filter alone


def test_a_known_answer():
    # bo (11, 12) shares 11 with ann (10, 11) and 12 with cy. Item 10: one path 11-ann-10, with
    # d_11 = 2, d_ann = 2, d_10 = 1: 2^-1/2 / 2. Item 500 is reached by nobody: -1/(1+0).
    runtime = cerp.load(FILTER)
    assert runtime.recommend("bo", unseen_items=True) == [
        (10, pytest.approx(2**-0.5 / 2)),
        (500, -1.0),
    ]
    # cy took 12 alone, so 11 by bo: d_12 = 2, d_bo = 2, d_11 = 2; 10 is out of reach: -1/2.
    wanted = [(11, pytest.approx(2**-0.5 / 2 * 2**-0.25)), (10, -0.5), (500, -1.0)]
    assert runtime.recommend("cy", unseen_items=True) == wanted


def test_someone_without_items_gets_popularity():
    # 11 and 12 were taken twice, 10 once, 500 never.
    runtime = cerp.load(FILTER)
    assert [item for item, _ in runtime.recommend("di")] == [11, 12, 10]
    found = runtime.recommend("di", unseen_items=True)
    assert [item for item, _ in found] == [11, 12, 10, 500]
    assert runtime.recommend_for([], unseen_items=True) == found


def test_scores_are_those_of_the_definition():
    model = small_filter()
    scores = Runtime(model).score_all(np.arange(NUM_USERS, dtype=np.int32))
    for user, row in enumerate(scores):
        wanted = with_floor(defined(model, history(model, user)), model)
        np.testing.assert_allclose(row, wanted, rtol=1e-6)


@pytest.mark.parametrize("exclude_seen", [True, False])
@pytest.mark.parametrize("k", [1, 7, 100])
def test_lists_are_the_best_of_all_scores(k: int, *, exclude_seen: bool):
    model = small_filter()
    runtime = Runtime(model)
    users = runtime.users.values.tolist()
    lists = runtime.recommend_many(users, k, exclude_seen=exclude_seen, unseen_items=True)
    scores = runtime.score_all(np.arange(NUM_USERS, dtype=np.int32))
    for user, found in enumerate(lists):
        hidden = set(history(model, user)) if exclude_seen else set()
        order = sorted(set(range(NUM_ITEMS)) - hidden, key=lambda item: (-scores[user, item], item))
        assert [item for item, _ in found] == runtime.items.decode(np.array(order[:k]))
        assert [score for _, score in found] == [scores[user, item] for item in order[:k]]
    own = runtime.recommend(users[3], k, exclude_seen=exclude_seen, unseen_items=True)
    assert lists[3] == own


def test_what_is_excluded_and_who_is_a_candidate():
    runtime = Runtime(small_filter())
    user = runtime.users.decode([2])[0]
    whole = runtime.recommend(user, NUM_ITEMS)
    first, second, third, fourth = (place.item for place in whole[:4])
    assert runtime.recommend(user, 2, exclude=[first, third]) == [whole[1], whole[3]]
    assert runtime.recommend(user, 5, candidates=[third, second]) == [whole[1], whole[2]]
    assert runtime.recommend(user, 5, candidates=[]) == []
    seen = runtime.seen(user)
    assert runtime.recommend(user, 5, candidates=seen) == []
    assert runtime.score(user, [fourth, first]).tolist() == [whole[3].score, whole[0].score]


def test_someone_new_gets_what_a_user_with_the_same_items_gets():
    runtime = Runtime(small_filter())
    for user in runtime.users.values[:-1].tolist():
        liked = runtime.seen(user)
        assert runtime.recommend_for(liked[::-1], 9) == runtime.recommend(user, 9)
    assert runtime.takes_liked_items


def test_similar_items_are_those_of_someone_who_took_nothing_else():
    runtime = Runtime(small_filter())
    item = runtime.items.decode([5])[0]
    assert runtime.similar_items(item, 6) == runtime.recommend_for([item], 6)
    assert item not in [place.item for place in runtime.similar_items(item, NUM_ITEMS)]


@pytest.mark.parametrize("model", [small_filter(), sharpened(small_filter())])
def test_scipy_changes_no_bit(monkeypatch: pytest.MonkeyPatch, model: ShippedModel):
    users = np.arange(NUM_USERS, dtype=np.int32)
    with_scipy = Runtime(model)
    scores, ids = with_scipy.score_all(users), with_scipy.users.values.tolist()
    lists = with_scipy.recommend_many(ids, 8)
    monkeypatch.setattr("cerp.graph.two_hops.scipy_is_there", lambda: False)
    monkeypatch.setattr("cerp.graph.sharpening.scipy_is_there", lambda: False)
    alone = Runtime(model)
    assert alone.score_all(users).tobytes() == scores.tobytes()
    assert alone.recommend_many(ids, 8) == lists


def test_neither_scipy_nor_torch_is_needed():
    code = (
        "import sys; sys.modules['scipy'] = None; import cerp; "
        f"runtime = cerp.load({str(FILTER)!r}); print(runtime.recommend('bo', 1)[0].item); "
        "sys.exit('torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert (found.stdout.strip(), found.returncode) == (b"10", 0), found.stderr


def test_the_runtime_says_that_it_is_a_filter():
    told = repr(cerp.load(FILTER))
    assert "scores: graph filter" in told
    assert "numbers a vector" not in told
    assert Runtime(filter_model()).multiplications == 2 * 5 + 4


# The filter, sharpened


def test_a_known_answer_of_a_sharpened_filter():
    # cy took 12 alone. Golden: q = 1, p = 1/2, m = 1/2, t = 0.3, twice. With users ann (10, 11),
    # bo (11, 12) and cy (12), K = [[1/2, 1/2, 0], [1/2, 1, 1/2], [0, 1/2, 3/2]], d = (1, 2, 2).
    lending = np.array([[0.5, 0.5, 0], [0.5, 1, 0.5], [0, 0.5, 1.5]]) * [1, 2**-0.5, 2**-0.5]
    step = np.eye(3) - 0.3 * lending
    left = step @ step @ lending @ [0, 0, 1]
    # What 10 has left is below 0, so popularity ranks it; 500 is taken by nobody.
    assert left[0] < 0 < left[1]
    found = cerp.load(SHARP_FILTER).recommend("cy", unseen_items=True)
    assert found == [(11, pytest.approx(left[1] * 2**-0.25)), (10, -0.5), (500, -1.0)]


def test_a_sharpened_filter_says_so_and_counts_its_work():
    runtime = cerp.load(SHARP_FILTER)
    assert "scores: sharpened graph filter" in repr(runtime)
    assert runtime.multiplications == 3 * (2 * 5 + 4)
    mixture = Runtime(sharpened(small_mixture("mf")))
    assert "with sharpened graph filter" in repr(mixture)


def test_someone_new_gets_the_same_from_a_sharpened_filter():
    runtime = Runtime(sharpened(small_filter()))
    for user in runtime.users.values[:-1].tolist():
        assert runtime.recommend_for(runtime.seen(user), 9) == runtime.recommend(user, 9)


def test_a_sharpened_filter_changes_a_mixture():
    users = np.arange(NUM_USERS, dtype=np.int32)
    plain = small_mixture("lightgcn")
    assert not np.array_equal(
        Runtime(plain).score_all(users), Runtime(sharpened(plain)).score_all(users)
    )


# Vectors and filter


def mixed(model: ShippedModel, scores: np.ndarray, items: list[int]) -> np.ndarray:
    """The definition, by Python's logarithm."""
    if not items:
        return with_floor(np.zeros(len(scores)), model)
    strengths = defined(model, items)
    peak = max(value for item, value in enumerate(strengths) if item not in items)
    beta, epsilon = model.filter.mixing.beta, model.filter.mixing.epsilon
    shares = [math.log(epsilon + (value / peak if peak else 0)) for value in strengths]
    return np.array([score + beta * share for score, share in zip(scores, shares, strict=True)])


@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_mixture_adds_the_logarithm_of_the_filter_s_share(backbone: str):
    model = small_mixture(backbone)
    users = np.arange(NUM_USERS, dtype=np.int32)
    vectors = Runtime(replace(model, filter=None)).score_all(users)
    found = Runtime(model).score_all(users)
    for user in range(NUM_USERS):
        wanted = mixed(model, vectors[user], history(model, user))
        np.testing.assert_allclose(found[user], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("beta", [0.0, 0.25, 3.0, 256.0])
def test_lists_of_a_mixture_are_the_best_of_its_scores(backbone: str, beta: float):
    runtime = Runtime(small_mixture(backbone, beta))
    ids = runtime.users.values.tolist()
    scores = runtime.score_all(np.arange(NUM_USERS, dtype=np.int32))
    for user, found in enumerate(runtime.recommend_many(ids, 6, unseen_items=True)):
        hidden = history(runtime.model, user)
        free = [item for item in range(NUM_ITEMS) if item not in hidden]
        order = sorted(free, key=lambda item: (-scores[user, item], item))[:6]
        assert [place.score for place in found] == [scores[user, item] for item in order]
        assert [place.item for place in found] == runtime.items.decode(np.array(order))


NO_VECTORS = {"head": None, "embedding": None, "sums": None}


@pytest.mark.parametrize("model", [small_sums_mixture(), sharpened(small_sums_mixture())])
def test_users_of_sums_beside_a_filter_are_the_sums_of_their_items(model: ShippedModel):
    """By the definition: Σ_j ⌈2^(l_j / 8)⌉^-t ⟨v_j, v_i⟩, and the share of the filter."""
    vectors = model.embedding.vectors(np.arange(NUM_ITEMS), NUM_ITEMS).astype(np.float64)
    takers = np.bincount(model.seen.items, minlength=NUM_ITEMS)
    weights = np.ceil(2 ** (np.floor(8 * np.log2(1 + takers)) / 8)) ** -model.sums.exponent
    runtime = Runtime(model)
    found = runtime.score_all(np.arange(NUM_USERS, dtype=np.int32))
    assert model.filter is not None
    alone = Runtime(replace(model, filter=replace(model.filter, mixing=None), **NO_VECTORS))
    strengths = alone.score_all(np.arange(NUM_USERS, dtype=np.int32))
    beta, epsilon = model.filter.mixing.beta, model.filter.mixing.epsilon
    for user in range(NUM_USERS - 1):
        taken = history(model, user)
        products = vectors @ (weights[taken] @ vectors[taken])
        reached = np.maximum(strengths[user], 0)
        peak = max(np.delete(reached, taken)) or np.inf  # nobody has a share of nothing
        wanted = products + beta * np.log(epsilon + reached / peak)
        np.testing.assert_allclose(found[user], wanted, rtol=1e-5, atol=1e-4)
        ids = runtime.users.values.tolist()
        assert runtime.recommend_for(runtime.seen(ids[user]), 9) == runtime.recommend(ids[user], 9)
    # The last user has nothing: by popularity, as someone new without items.
    np.testing.assert_array_equal(found[-1], (-1 / (1 + takers)).astype(np.float32))
    assert runtime.recommend(ids[-1], 9) == runtime.recommend_for([], 9)


def test_lists_of_sums_beside_a_filter_are_the_best_of_their_scores():
    runtime = Runtime(small_sums_mixture())
    scores = runtime.score_all(np.arange(NUM_USERS, dtype=np.int32))
    lists = runtime.recommend_many(runtime.users.values.tolist(), 6, unseen_items=True)
    for user, found in enumerate(lists):
        hidden = history(runtime.model, user)
        free = [item for item in range(NUM_ITEMS) if item not in hidden]
        order = sorted(free, key=lambda item: (-scores[user, item], item))[:6]
        assert [place.score for place in found] == [scores[user, item] for item in order]
    nobody = runtime.users.values[-1:].tolist()
    assert len(runtime.recommend_many([], 6)) == 0
    assert len(runtime.recommend_many(nobody * 2, 6)) == 2


def test_a_mixture_takes_liked_items_where_its_vectors_do():
    runtime = Runtime(small_mixture("lightgcn"))
    liked = runtime.items.decode([1, 4, 9])
    found = runtime.recommend_for(liked, 5)
    assert len(found) == 5
    assert not set(liked) & {place.item for place in found}
    assert "with graph filter" in repr(runtime)
    with pytest.raises(ConfigError, match="tower"):
        Runtime(small_mixture("mlp")).recommend_for(liked)


def test_popularity_for_someone_without_items_in_a_mixture():
    runtime = Runtime(small_mixture("lightgcn"))
    nobody = runtime.users.decode([NUM_USERS - 1])[0]
    filtered = Runtime(small_filter())
    assert runtime.recommend(nobody, 12) == filtered.recommend(nobody, 12)
