"""Which matrices `cerp.kernels.row_products` is for, and how it cuts them; needs no Triton."""

from __future__ import annotations

import math

import torch
from torch import Tensor

COLUMNS = 128
"""Of a tile: the matrix has a multiple of them."""
FEWEST_COLUMNS = 4096
"""Of a matrix that the kernels are compiled for, which takes some seconds on a new machine: with
fewer, as where codes are learned, products are a small part of a step."""
MOST_PARTS = 16
"""Into which the rows are cut backward, so that every multiprocessor has something to do."""


def takes(matrix: Tensor, dim: int) -> bool:
    """Whether the kernels are for a matrix, times tables of so many columns."""
    return matrix.dtype == torch.float16 and matrix.shape[1] >= FEWEST_COLUMNS and takes_width(dim)


def takes_width(dim: int) -> bool:
    """Whether kernels of training steps are for vectors of so many dimensions."""
    return 16 <= dim <= 256 and dim & (dim - 1) == 0


def even_parts(tiles: int, multiprocessors: int) -> int:
    """Parts of the rows such that tiles of all parts fill the multiprocessors evenly."""

    def idle(parts: int) -> float:
        waves = tiles * parts / multiprocessors
        return math.ceil(waves) / waves

    return min(range(1, MOST_PARTS + 1), key=idle)
