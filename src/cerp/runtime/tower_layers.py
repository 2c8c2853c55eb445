"""All items through the layers of a tower in float32, for one query, on all cores.

BLAS can spread a product over the cores, but not what comes between two products. So threads of
our own take a block of items each through all layers, and its products are cut into such small
ones that BLAS computes each on one core. NumPy multiplies all of them in one call.
"""

from __future__ import annotations

from itertools import pairwise

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
        self.block = self.rows * max(1, BLOCK_BYTES // (4 * width * self.rows))
        padded = self.rows * -(-self.num_items // self.rows)  # whole products
        self.first = np.zeros((padded, width), dtype=np.float32)
        self.first[: self.num_items] = first

    def through(self, floors: list[FloatArray]) -> FloatArray:
        """What comes out for each item."""
        result = np.empty((len(self.first), 1), dtype=np.float32)
        blocks = [slice(at, at + self.block) for at in range(0, len(result), self.block)]
        # The maximum of two arrays of one shape takes half as long as that of an array and a row.
        tall = [np.repeat(floor[None], self.block, axis=0) for floor in floors]
        spare: list[list[FloatArray]] = []

        def fill(block: slice, rows: int | None = None) -> None:
            """Of one block, with products of so many rows or of all of its rows."""
            buffers = spare.pop() if spare else [np.empty_like(floor) for floor in tall]
            items = self.first[block]
            count = len(items)
            layers = [*(buffer[:count] for buffer in buffers), result[block]]
            np.maximum(items, tall[0][:count], out=layers[0])
            for layer, (inputs, outputs) in enumerate(pairwise(layers)):
                multiply(inputs, self.weights[layer], outputs, rows or count)
                if layer + 1 < len(tall):
                    np.maximum(outputs, tall[layer + 1][:count], out=outputs)
            spare.append(buffers)

        if self.rows < FEWEST_ROWS or allowed_threads() == 1:
            for block in blocks:
                fill(block)
        else:
            shared_out(lambda block: fill(block, self.rows), blocks)
        return result[: self.num_items, 0]


def multiply(values: FloatArray, weight: FloatArray, out: FloatArray, rows: int) -> None:
    """Write the product of a matrix and a weight, computed so many rows at a time."""
    inputs, outputs = weight.shape
    np.matmul(values.reshape(-1, rows, inputs), weight, out=out.reshape(-1, rows, outputs))
