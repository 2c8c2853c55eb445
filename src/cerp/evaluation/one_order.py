"""Lists by one order of the items for everybody, without what each user has taken.

No score is written for each user and item: popularity is judged beside every model.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array, Int64Array


def falling(
    scores: npt.NDArray[np.floating], hidden: npt.NDArray[np.integer] | None = None
) -> Int32Array:
    """Items by falling score, equal ones in ascending order; without hidden ones, and -inf."""
    order = np.argsort(-scores, kind="stable")
    is_out = scores == -np.inf
    if hidden is not None:
        is_out[hidden] = True
    found: Int32Array = order[~is_out[order]].astype(np.int32)
    return found


def first_of(
    order: Int32Array, rows: Int64Array, taken: Int32Array, count: int, k: int
) -> Int32Array:
    """The first k items of an order that each of ``count`` users has not taken, (count, k).

    User ``rows[n]`` has taken ``taken[n]``, nothing twice. Where nothing is left, -1.

    With the places of a user's items in the order sorted as p_0 < p_1 < ..., the value p_j - j
    counts what the user has not taken before p_j, so what comes r-th of that stands at
    ``r + #{j : p_j - j <= r}``.
    """
    width = max(len(order), k) + 1
    place = np.full(max(order.max(initial=-1), taken.max(initial=-1)) + 1, -1, dtype=np.int64)
    place[order] = np.arange(len(order))
    places = place[taken]
    is_there = places >= 0
    keys = np.sort(rows[is_there] * width + places[is_there])
    of_row = keys // width
    starts = np.searchsorted(of_row, np.arange(count))
    skips = keys - (np.arange(len(keys)) - starts[of_row])
    wanted = np.arange(count)[:, None] * width + np.arange(k)
    before = np.searchsorted(skips, wanted, side="right") - starts[:, None]
    found: Int32Array = np.append(order, np.int32(-1))[
        np.minimum(np.arange(k) + before, len(order))
    ]
    return found
