"""Where entities stand in the line that a hash cuts into rows, or which rows codes give them.

``positions[k]`` is the place of entity k (see `cerp.assignment.ordering`); without
positions, ids are places.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cerp.assignment.residual_kmeans import learn_codes
from cerp.data.ids import Int32Array
from cerp.errors import ConfigError, DataError
from cerp.models.embeddings.base import checked_ids

DEFAULT_BOOKS = 4
"""Of codes that are learned from vectors."""


def checked_positions(
    positions: npt.NDArray[np.integer[Any]] | None, num_embeddings: int
) -> Tensor | None:
    """A permutation of 0..N-1 as int32; anything else would give two entities one vector."""
    if positions is None:
        return None
    copied = np.array(positions, dtype=np.int32)
    taken = np.zeros(num_embeddings, dtype=bool)
    if copied.shape == taken.shape and copied.min() >= 0 and copied.max() < num_embeddings:
        taken[copied] = True
    if not taken.all():
        raise DataError(
            f"positions must hold each of 0..{num_embeddings - 1} once, one for each entity"
        )
    return torch.from_numpy(copied)


def places_of(ids: Tensor, positions: Tensor | None, num_embeddings: int) -> Tensor:
    """Positions of ids; -1 for ids out of range.

    No hash has a row for -1, so that lookups refuse such ids, on GPUs too, as
    nn.Embedding does.
    """
    ids = checked_ids(ids).long()
    places = ids if positions is None else positions[ids]
    return torch.where((ids >= 0) & (ids < num_embeddings), places, -1)


def checked_book_rows(
    codes: npt.NDArray[np.integer[Any]], num_embeddings: int, rows: int | None
) -> tuple[int, ...]:
    """How many rows each codebook has, for codes of shape (N, m) that name rows of all of them."""
    if codes.ndim != 2 or len(codes) != num_embeddings or codes.shape[1] < 1:
        raise DataError(
            f"codes must have the shape ({num_embeddings}, number of codebooks), one line for each "
            f"entity, got {codes.shape}"
        )
    least, most = int(codes.min()), int(codes.max())
    rows = most + 1 if rows is None else rows
    if least < 0 or most >= rows:
        raise DataError(f"codes must name rows 0..{rows - 1}, got {least} to {most}")
    return (rows,) * int(codes.shape[1])


def codes_of_vectors(
    vectors: npt.NDArray[np.floating[Any]],
    num_embeddings: int,
    books: int | None,
    rows: int | None,
    codes: npt.NDArray[np.integer[Any]] | None,
) -> Int32Array:
    """Codes learned from one vector for each entity, with nothing else given to choose rows by."""
    if codes is not None:
        raise ConfigError("give codes, or vectors to learn them from; not both")
    if rows is None:
        raise ConfigError(
            "vectors are cut into the rows of codebooks; give buckets, the number of rows in each"
        )
    if vectors.ndim != 2 or len(vectors) != num_embeddings:
        raise DataError(
            f"vectors must have the shape ({num_embeddings}, dimensions), one line for each "
            f"entity, got {vectors.shape}"
        )
    return learn_codes(vectors, books=books or DEFAULT_BOOKS, rows=rows).codes


def room_for(kept: Tensor | None, saved: Tensor | None, device: torch.device) -> Tensor | None:
    """What a saved buffer can be copied into; None where there is none."""
    if saved is None:
        return None
    if kept is not None and kept.shape == saved.shape:
        return kept
    return torch.empty(saved.shape, dtype=torch.int32, device=device)
