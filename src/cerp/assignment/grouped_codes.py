"""Codes of vectors whose columns are cut into groups, each with books of its own; needs torch.

``x_k[G] ≈ Σ_j C_Gj[c_kGj]`` for each group G of columns. Written as books of whole rows that are
zero outside their group, which is how `cerp.nn.CompositionalEmbedding` stores and masks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cerp.assignment.codes import Float32Array
from cerp.assignment.field_rule import Layout
from cerp.assignment.residual_kmeans import learn_codes
from cerp.data.ids import Int32Array


class GroupedCodes(NamedTuple):
    """Codes of all groups side by side, and the books, zero where a group has no columns."""

    codes: Int32Array
    """(N, g·m)"""
    books: Float32Array
    """(g·m·K, d)"""
    mask: npt.NDArray[np.bool_]
    """(g·m·K, d): the columns of a book's group."""


COUNT_POWER = 0.5
"""An id that occurs n times weighs n to this power where codes are learned."""


def codes_of_fields(
    tables: Sequence[Float32Array],
    counts: Sequence[npt.NDArray[np.integer[Any]]] | None,
    layout: Layout,
    *,
    seed: int = 0,
) -> GroupedCodes:
    """Codes of the vectors of several tables, one behind the other.

    With ``counts``, vectors weigh by their roots, and only those are looked at that training named:
    all others get the codes of their mean. Most ids of a field of millions are such.
    """
    if counts is None:
        return grouped_codes(np.concatenate(tables), None, layout, seed=seed)
    counted = np.concatenate(counts)
    is_named = counted > 0
    if not is_named.any():
        return grouped_codes(np.concatenate(tables), None, layout, seed=seed)
    pairs = zip(tables, counts, strict=True)
    vectors = np.concatenate([table[own > 0] for table, own in pairs])
    weights = counted[is_named].astype(np.float32) ** COUNT_POWER
    if is_named.all():
        return grouped_codes(vectors, weights, layout, seed=seed)
    mean = np.average(vectors, axis=0, weights=weights).astype(np.float32)
    others = np.float32(np.count_nonzero(~is_named) ** COUNT_POWER)
    found = grouped_codes(np.vstack([vectors, mean]), np.append(weights, others), layout, seed=seed)
    codes = np.empty((len(counted), found.codes.shape[1]), dtype=np.int32)
    codes[is_named], codes[~is_named] = found.codes[:-1], found.codes[-1]
    return found._replace(codes=codes)


def grouped_codes(
    vectors: npt.NDArray[np.floating[Any]],
    weights: npt.NDArray[np.floating[Any]] | None,
    layout: Layout,
    *,
    seed: int = 0,
) -> GroupedCodes:
    """Residual k-means in each group of columns by itself (see `cerp.nn.learn_codes`)."""
    width = layout.columns // layout.groups
    shape = (layout.groups, layout.books * layout.rows, layout.columns)
    books, mask = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=bool)
    codes = []
    for group in range(layout.groups):
        own = slice(group * width, (group + 1) * width)
        found = learn_codes(
            np.ascontiguousarray(vectors[:, own]),
            weights,
            books=layout.books,
            rows=layout.rows,
            seed=seed,
        )
        codes.append(found.codes)
        books[group, :, own] = found.books.reshape(-1, width)
        mask[group, :, own] = True
    whole = (-1, layout.columns)
    return GroupedCodes(np.concatenate(codes, axis=1), books.reshape(whole), mask.reshape(whole))
