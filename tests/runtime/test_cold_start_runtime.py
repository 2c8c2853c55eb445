"""Popularity for users without training rows, and no unseen items, whatever the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cerp.artifact import Encoding, FilterTerm, Mixing, ShippedModel, decode, encode
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.evaluation.cold_start import with_popularity
from cerp.evaluation.evaluate import evaluate
from cerp.runtime import Runtime
from cerp.runtime.limits import MAX_MEMORY, Limits
from cerp.runtime.mixture_ranker import ranker_of
from small_cold_start import COLD_USERS, UNSEEN_ITEMS, cold_model, warm_model
from small_filters import EXPONENTS
from small_models import BACKBONES, NUM_ITEMS, NUM_USERS

EVERYONE = np.arange(NUM_USERS, dtype=np.int32)


def models() -> dict[str, ShippedModel]:
    """Every way to score."""
    found = {backbone: cold_model(backbone) for backbone in BACKBONES}
    mixture = FilterTerm(EXPONENTS, Mixing(3.0, 0.01))
    found["mf+filter"] = replace(cold_model("mf"), filter=mixture)
    found["filter"] = replace(
        cold_model(), head=None, embedding=None, positions=None, filter=FilterTerm(EXPONENTS)
    )
    return found


MODELS = models()


def popular(model: ShippedModel) -> tuple[list[int], list[float]]:
    """Items with takers by their number, ties by code; and the scores of all items."""
    degrees = np.bincount(model.seen.items, minlength=NUM_ITEMS).tolist()
    order = sorted(range(NUM_ITEMS), key=lambda item: (-degrees[item], item))
    scores = [float(np.float32(-1 / (1 + degree))) for degree in degrees]
    return [item for item in order if degrees[item]], scores


@pytest.mark.parametrize("name", MODELS)
def test_users_without_training_rows_get_the_popular_items(name: str):
    runtime = Runtime(MODELS[name])
    items, scores = popular(runtime.model)
    wanted = [(runtime.items.decode([item])[0], scores[item]) for item in items]
    for user in COLD_USERS:
        known = runtime.users.decode([user])[0]
        assert runtime.recommend(known, NUM_ITEMS) == wanted
        assert runtime.score(known, runtime.items.values.tolist()).tolist() == scores
    assert runtime.score_all(np.array(COLD_USERS, dtype=np.int32)).tolist() == [scores] * 3
    assert runtime.recommend_for([], NUM_ITEMS) == wanted


@pytest.mark.parametrize("name", MODELS)
def test_everybody_else_gets_what_the_model_says(name: str):
    runtime = Runtime(MODELS[name])
    scores = runtime.score_all(EVERYONE)
    for user in set(EVERYONE.tolist()) - set(COLD_USERS):
        known = runtime.users.decode([user])[0]
        hidden = {*runtime.items.encode(runtime.seen(known)).tolist(), *UNSEEN_ITEMS}
        free = [item for item in range(NUM_ITEMS) if item not in hidden]
        order = sorted(free, key=lambda item: (-scores[user, item], item))
        found = runtime.recommend(known, NUM_ITEMS)
        assert [place.item for place in found] == runtime.items.decode(np.array(order, dtype=int))
        assert [place.score for place in found] == [scores[user, item] for item in order]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("exclude_seen", [True, False])
def test_a_batch_of_both_kinds_is_the_same_as_one_by_one(name: str, *, exclude_seen: bool):
    runtime = Runtime(MODELS[name])
    items = runtime.items.values.tolist()
    for users in (runtime.users.values.tolist()[::-1], runtime.users.decode(COLD_USERS)):
        for options in ({}, {"exclude": items[1:4]}, {"candidates": items[:20]}):
            lists = runtime.recommend_many(users, 9, exclude_seen=exclude_seen, **options)
            for user, found in zip(users, lists, strict=True):
                own = runtime.recommend(user, 9, exclude_seen=exclude_seen, **options)
                assert found == own


@pytest.mark.parametrize("name", MODELS)
def test_items_that_training_never_saw_come_only_when_asked_for(name: str):
    runtime = Runtime(MODELS[name])
    unseen = set(runtime.items.decode(UNSEEN_ITEMS))
    user, others = runtime.users.decode([3])[0], runtime.items.decode([5, 6])

    def listed(**options: object) -> set[object]:
        return {place.item for place in runtime.recommend(user, NUM_ITEMS, **options)}

    assert not unseen & listed()
    assert unseen <= listed(unseen_items=True)
    assert not listed(candidates=unseen)
    assert listed(candidates=unseen, unseen_items=True) == unseen
    assert not unseen & {place.item for place in runtime.similar_items(others[0], NUM_ITEMS)}
    assert len(runtime.similar_items(others[0], 4)) == 4
    if runtime.takes_liked_items:
        found = runtime.recommend_for(others, NUM_ITEMS, unseen_items=True)
        assert unseen <= {place.item for place in found}
        assert not unseen & {place.item for place in runtime.recommend_for(others, NUM_ITEMS)}


@pytest.mark.parametrize("name", [name for name in MODELS if name != "mlp"])
def test_liked_items_that_training_never_saw_tell_nothing(name: str):
    runtime = Runtime(MODELS[name])
    unseen, known = runtime.items.decode(UNSEEN_ITEMS), runtime.items.decode([5, 6])
    assert runtime.recommend_for([*unseen, *known], 8) == runtime.recommend_for(known, 8)
    assert runtime.recommend_for(unseen, 8) == runtime.recommend_for([], 8)


def test_what_is_excluded_is_not_popular_either():
    runtime = Runtime(cold_model())
    best = [place.item for place in runtime.recommend_for([], 4)]
    assert [place.item for place in runtime.recommend_for([], 2, exclude=best[:2])] == best[2:]
    found = runtime.recommend_for([], 9, candidates=[best[3], best[1]])
    assert [place.item for place in found] == [best[1], best[3]]


@pytest.mark.parametrize("backbone", ["mf", "mlp", "propagated"])
def test_a_file_without_interactions_gives_the_same_lists(backbone: str):
    model = cold_model(backbone)
    whole = Runtime(model)
    small = Runtime(decode(encode(model, Encoding(seen=False))))
    assert small.score_all(EVERYONE).tobytes() == whole.score_all(EVERYONE).tobytes()
    users = whole.users.values.tolist()
    wanted = whole.recommend_many(users, 12, exclude_seen=False)
    assert small.recommend_many(users, 12, exclude_seen=False) == wanted
    assert small.recommend_for([], 12) == whole.recommend_for([], 12)


def test_a_file_that_does_not_say_what_is_popular_says_how_it_could():
    quiet = Runtime(decode(encode(warm_model(), Encoding(seen=False))))
    assert not quiet.knows_popular_items
    with pytest.raises(ConfigError, match="popularity=True"):
        quiet.recommend_for([])
    told = Runtime(decode(encode(warm_model(), Encoding(seen=False, popularity=True))))
    assert told.recommend_for([], 5) == Runtime(warm_model()).recommend_for([], 5)


class Alone:
    """The scores of a model without popularity for anybody."""

    def __init__(self, model: ShippedModel) -> None:
        self.ranker = ranker_of(model, Limits.of(MAX_MEMORY, None))

    def score_all(self, users: np.ndarray) -> np.ndarray:
        return self.ranker.scores(self.ranker.of_users(users), slice(None))


@pytest.mark.parametrize("name", MODELS)
def test_a_file_is_judged_as_the_model_of_a_run_is(name: str):
    model = MODELS[name]
    train = Interactions.from_codes(
        np.repeat(EVERYONE, np.diff(model.seen.offsets)),
        model.seen.items,
        users=model.users,
        items=model.items,
    )
    free = np.random.default_rng(0).random((NUM_USERS, NUM_ITEMS)) < 0.2
    free[train.user, train.item] = False
    truth = Interactions.from_codes(*np.nonzero(free), users=model.users, items=model.items)
    nothing = Interactions.from_codes([], [], users=model.users, items=model.items)
    splits = Splits(train, nothing, truth)
    judged = evaluate(Runtime(model), splits)
    assert (judged.cold_users, judged.unseen_items) == (len(COLD_USERS), len(UNSEEN_ITEMS))
    # As a run does it, around a scorer that knows nothing of such users.
    assert evaluate(with_popularity(Alone(model), train), splits).summary() == judged.summary()
