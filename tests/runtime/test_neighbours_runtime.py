"""Recommendations from files of item neighbours, which know no users."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import cerp
from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError
from cerp.runtime import Runtime
from golden_neighbours import NEIGHBOURS
from small_models import NUM_ITEMS
from small_neighbours import small_neighbours


def defined(runtime: Runtime, history: list[int]) -> np.ndarray:
    """Scores of all items by the definition, one weight at a time."""
    found = runtime.model.neighbours
    scores = [0.0] * NUM_ITEMS
    for source in sorted(set(history)):
        for at in range(found.offsets[source], found.offsets[source + 1]):
            scores[found.targets[at]] += float(found.scales[source]) * int(found.integers[at])
    rounded = np.array(scores).astype(np.float32)
    return np.where(rounded == 0, -1 / (1 + found.popularity.astype(float)), rounded)


def test_a_known_answer():
    # 10 speaks for 11 with 7 · 0.5 and for 500 with 3 · 0.5.
    runtime = cerp.load(NEIGHBOURS)
    assert runtime.recommend_for([10]) == [(11, 3.5), (500, 1.5)]
    # 11 speaks for nothing: by popularity, whose levels are 20, 8 and 0, which nobody took.
    wanted = [(500, float(np.float32(-1 / 21))), (10, float(np.float32(-1 / 9))), (12, -1.0)]
    assert runtime.recommend_for([11]) == wanted[:2]
    assert runtime.recommend_for([11], unseen_items=True) == wanted
    assert runtime.recommend_for([12, 10]) == runtime.recommend_for([10])
    assert runtime.similar_items(500, 1) == [(10, 127 / 512)]


@pytest.mark.parametrize("k", [1, 7, 100])
def test_lists_are_the_best_by_the_definition(k: int):
    runtime = Runtime(small_neighbours())
    for history in ([0], [7, 30, 8], list(range(0, NUM_ITEMS, 2))):
        scores = defined(runtime, history).astype(np.float32)
        order = sorted(set(range(NUM_ITEMS)) - set(history), key=lambda i: (-scores[i], i))[:k]
        found = runtime.recommend_for(runtime.items.decode(history), k)
        assert [item for item, _ in found] == runtime.items.decode(order)
        assert [score for _, score in found] == scores[order].tolist()


def test_what_is_excluded_and_who_is_a_candidate():
    runtime = Runtime(small_neighbours())
    liked = runtime.items.decode([7, 9])
    whole = runtime.recommend_for(liked, NUM_ITEMS)
    first, second, third = (place.item for place in whole[:3])
    assert runtime.recommend_for(liked, 2, exclude=[first]) == whole[1:3]
    assert runtime.recommend_for(liked, 5, candidates=[third, second]) == whole[1:3]
    assert len(runtime.recommend_for(liked, 100, exclude_seen=False)) == NUM_ITEMS


def test_similar_items_are_those_of_someone_who_took_nothing_else():
    runtime = Runtime(small_neighbours())
    item = runtime.items.decode([9])[0]
    assert runtime.similar_items(item, 6) == runtime.recommend_for([item], 6)


@pytest.mark.parametrize(
    "ask",
    [
        lambda runtime: runtime.recommend(0),
        lambda runtime: runtime.recommend_many([0, 1]),
        lambda runtime: runtime.score(0, [10]),
        lambda runtime: runtime.seen(0),
        lambda runtime: runtime.score_all(np.array([0], dtype=np.int32)),
    ],
)
def test_who_asks_for_a_user_is_told_to_give_items(ask):
    with pytest.raises(ConfigError, match="items and no users"):
        ask(cerp.load(NEIGHBOURS))


def test_it_says_what_it_is():
    runtime = cerp.load(NEIGHBOURS)
    assert runtime.is_item_only
    assert runtime.takes_liked_items
    assert repr(runtime).startswith(
        "Runtime: no users, 4 items\n  scores: weights between items\n  file: 1,218 bytes"
    )
    assert runtime.multiplications == 9


def test_histories_may_come_from_interactions_and_may_be_empty():
    runtime = Runtime(small_neighbours())
    taken = Interactions.from_codes([0, 0, 2], [3, 9, 20], users=Ids.range(3), items=runtime.items)
    scores = runtime.with_histories(taken).score_all(np.array([2, 0, 1], dtype=np.int32))
    for row, history in zip(scores, ([20], [3, 9], []), strict=True):
        np.testing.assert_array_equal(row, defined(runtime, history).astype(np.float32))


def test_neither_scipy_nor_torch_is_needed():
    code = (
        "import sys; sys.modules['scipy'] = None; import cerp; "
        f"runtime = cerp.load({str(NEIGHBOURS)!r}); print(runtime.recommend_for([10], 1)[0].item); "
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "11"
