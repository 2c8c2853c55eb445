"""Small random splits and graphs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.graph.edges import Edges


def interactions(taken: npt.NDArray[np.bool_]) -> Interactions:
    """Who took what, from a matrix of users x items; empty rows and columns count."""
    user, item = np.nonzero(taken)
    return Interactions.from_codes(
        user, item, users=Ids.range(taken.shape[0]), items=Ids.range(taken.shape[1])
    )


def edges_of(taken: npt.NDArray[np.bool_]) -> Edges:
    return Edges.of(interactions(taken))


@st.composite
def taken_matrices(draw: st.DrawFn) -> npt.NDArray[np.bool_]:
    """Users x items at random, also with users and items that have nothing."""
    users, items = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    density = draw(st.sampled_from([0.1, 0.3, 0.7]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    taken: npt.NDArray[np.bool_] = rng.random((users, items)) < density
    return taken


def splits_of(seed: int, users: int = 120, items: int = 60, tastes: int = 6) -> Splits:
    """Users who take items of one taste, popular ones more often."""
    rng = np.random.default_rng(seed)
    popularity = 1 / np.arange(1, items // tastes + 1)
    chances = np.zeros((users, items))
    for user in range(users):
        chances[user, user % tastes :: tastes] = popularity
    chances /= chances.max()
    taken = rng.random((users, items)) < 0.15 + 0.8 * chances
    taken &= rng.random((users, items)) < 0.1 + 0.9 * (chances > 0)
    part = rng.choice(3, size=taken.shape, p=[0.7, 0.15, 0.15])
    train, valid, test = (interactions(taken & (part == number)) for number in range(3))
    shared = {"users": train.users, "items": train.items}
    return Splits(
        train,
        Interactions.from_codes(valid.user, valid.item, **shared),
        Interactions.from_codes(test.user, test.item, **shared),
    )
