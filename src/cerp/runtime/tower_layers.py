"""All items through the layers of a tower in float32, for one query, on all cores.

BLAS can spread a product over the cores, but not what comes between two products. So threads of
our own take a block of items each through all layers, and its products are cut into such small
ones that BLAS computes each on one core. NumPy multiplies all of them in one call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from cerp.artifact.model import FloatArray
from cerp.cores import allowed_threads, shared_out

SPREAD = 2**19
"""Multiplications, from which on OpenBLAS spreads a product over cores."""
STEP = 4
"""A product takes longer where its number of rows is no multiple of this."""
FEWEST_ROWS = 24
"""Of small products. With fewer, BLAS on all cores is faster than each core by itself."""
BLOCK_BYTES = 2**20
"""Of the first layer of a block of items. In smaller ones, threads wait for the interpreter's lock
more often; larger ones leave the cache of a core."""

Product = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""Of several matrices and a weight, written to the third."""


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
        self.buffers = Buffers(self.first[: self.products].shape[:2], weights)

    def through(self, floors: list[FloatArray]) -> FloatArray:
        """What comes out for each item."""
        result = np.empty((*self.first.shape[:2], 1), dtype=np.float32)
        # The maximum with an array takes half as long as that with a row for each of its rows.
        tall = [np.tile(floor, (self.rows, 1)) for floor in floors]

        def fill(block: slice, multiply: Product) -> None:
            values = self.first[block]
            inputs = [buffer[: len(values)] for buffer in self.buffers.layers]
            outputs = [*inputs[1:], result[block]]
            for layer, weight in enumerate(self.weights):
                raised = np.maximum(values, tall[layer], out=inputs[layer])
                values = multiply(raised, weight, outputs[layer])

        blocks = [slice(at, at + self.products) for at in range(0, len(result), self.products)]
        if self.rows >= FEWEST_ROWS and allowed_threads() > 1:
            shared_out(lambda block: fill(block, np.matmul), blocks)
        else:
            for block in blocks:
                fill(block, as_one_product)
        return result.reshape(-1)[: self.num_items]


class Buffers(threading.local):
    """What goes into the layers of a block: each thread has its own.

    They are kept from one list to the next, because fresh memory takes a tenth of a list's time.
    """

    def __init__(self, shape: tuple[int, ...], weights: list[FloatArray]) -> None:
        self.layers = [np.empty((*shape, len(weight)), dtype=np.float32) for weight in weights]


def as_one_product(values: FloatArray, weight: FloatArray, out: FloatArray) -> FloatArray:
    """The products of all matrices, for BLAS to compute in one go, and on all cores if it may."""
    inputs, outputs = weight.shape
    np.matmul(values.reshape(-1, inputs), weight, out=out.reshape(-1, outputs))
    return out
