"""Weights between items to tensors and back.

- ``popularity``: a byte for each item, deflated; from it follows the order of items, the most
  popular first and equal ones by code;
- ``counts`` and ``gaps``: which targets each source has, as `cerp.artifact.edges` writes the
  items of users, sources and targets both in that order. Weights are most between popular
  items, so that gaps are small where there are many;
- ``scales``: half precision as two planes, all high bytes and then all low ones, deflated;
- ``values``: an integer a byte, source by source and target by target in the order of codes,
  deflated. Most are small, so that they take some three bits each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cerp.artifact.deflate import deflate
from cerp.artifact.edges import decode_seen, encode_seen
from cerp.artifact.fields import Fields
from cerp.artifact.model import Seen
from cerp.artifact.tensors import TensorReader, Tensors
from cerp.data.ids import Int32Array
from cerp.errors import MalformedFileError
from cerp.graph.neighbours import Levels, Neighbours


def encode_neighbours(neighbours: Neighbours) -> tuple[dict[str, Any], Tensors]:
    """The entry in the metadata, and the tensors."""
    pairs = Seen(neighbours.offsets, neighbours.targets)
    halves = neighbours.scales.astype("<f2").view(np.uint8).reshape(-1, 2)
    coded = encode_seen(pairs, neighbours.num_items, _positions(neighbours.popularity))
    coded["popularity"] = deflate(neighbours.popularity.tobytes())
    coded["scales"] = deflate(halves[:, ::-1].T.tobytes())
    coded["values"] = deflate(neighbours.integers.tobytes())
    return {"weights": len(neighbours)}, coded


def decode_neighbours(fields: Fields, tensors: TensorReader, num_items: int) -> Neighbours:
    """What `encode_neighbours` wrote."""
    count = fields.whole("weights")
    popularity = np.frombuffer(tensors.inflate("popularity", num_items), dtype=np.uint8)
    pairs = decode_seen(tensors, num_items, num_items, count, _positions(popularity))
    planes = np.frombuffer(tensors.inflate("scales", 2 * num_items), dtype=np.uint8)
    scales = planes.reshape(2, -1)[::-1].T.copy().view("<f2").reshape(-1).astype(np.float16)
    if not np.isfinite(scales).all() or (scales < 0).any():
        raise MalformedFileError(
            f"the tensor {tensors.name('scales')} holds a scale that is negative or not finite"
        )
    integers = np.frombuffer(tensors.inflate("values", count), dtype=np.int8)
    if (integers == 0).any() or (integers == -128).any():
        raise MalformedFileError(
            f"the tensor {tensors.name('values')} holds something else than integers from -127 "
            "to 127 that are not 0"
        )
    return Neighbours(pairs.offsets, pairs.items, integers, scales, popularity)


def _positions(popularity: Levels) -> Int32Array:
    """Of items as sources, and again of items as targets behind them."""
    line = np.argsort(-popularity.astype(np.int64), kind="stable")
    rank = np.empty(len(line), dtype=np.int32)
    rank[line] = np.arange(len(line))
    return np.concatenate([rank, rank + len(line)]).astype(np.int32)
