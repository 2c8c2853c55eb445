"""All items through the layers of a tower in float32, for one query, on all cores.

BLAS can spread a product over the cores, but not what comes between two products. So threads of
our own take a block of items each through all layers, and its products are cut into such small
ones that BLAS computes each on one core. NumPy multiplies all of them in one call.
"""

from __future__ import annotations

import numpy as np

from cerp.artifact.model import FloatArray
from cerp.cores import allowed_threads, shared_out

SPREAD = 2**19
"""Multiplications, from which on OpenBLAS spreads a product over cores."""
STEP = 4
"""A product takes longer where its number of rows is no multiple of this."""
FEWEST_ROWS = 24
"""Of small products. With fewer, BLAS on all cores is faster than each core by itself."""
BLOCK_BYTES = 2**19
"""Of the first layer of a block of items: all layers of a block stay in the cache of a core."""


class TowerLayers:
    """``W_L max(… W_1 max(a, f_0) …, f_(L-1))`` of every item's first layer a, given floors f."""

    def __init__(self, first: FloatArray, weights: list[FloatArray]) -> None:
        self.num_items, width = first.shape
        self.weights = weights
        rows = (SPREAD - 1) // max(weight.size for weight in weights)
        self.rows = max(1, rows // STEP * STEP)
        # Filled up with zeros to whole products.
        self.first = np.zeros((-(-self.num_items // self.rows), self.rows, width), np.float32)
        self.first.reshape(-1, width)[: self.num_items] = first
        self.products = max(1, BLOCK_BYTES // self.first[0].nbytes)

    def through(self, floors: list[FloatArray]) -> FloatArray:
        """What comes out for each item."""
        is_shared = self.rows >= FEWEST_ROWS and allowed_threads() > 1
        if is_shared:
            first, step = self.first, self.products
        else:
            first, step = self.first.reshape(-1, self.first.shape[2]), self.products * self.rows
        result = np.empty((*first.shape[:-1], 1), dtype=np.float32)
        # The maximum of two arrays of one shape takes half as long as that of an array and a row.
        shape = step, *first.shape[1:-1]
        tall = [np.broadcast_to(floor, (*shape, len(floor))).copy() for floor in floors]
        spare: list[list[FloatArray]] = []

        def fill(block: slice) -> None:
            buffers = spare.pop() if spare else [np.empty_like(floor) for floor in tall]
            values = first[block]
            count = len(values)
            outputs = [*buffers[1:], result[block]]
            for floor, buffer, weight, output in zip(
                tall, buffers, self.weights, outputs, strict=True
            ):
                raised = np.maximum(values, floor[:count], out=buffer[:count])
                values = np.matmul(raised, weight, out=output[:count])
            spare.append(buffers)

        blocks = [slice(at, at + step) for at in range(0, len(first), step)]
        if is_shared:
            shared_out(fill, blocks)
        else:
            for block in blocks:
                fill(block)
        return result.reshape(-1)[: self.num_items]
