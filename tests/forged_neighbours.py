"""Made-up files of item neighbours, which the readers in Python and in the page refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cerp.artifact.container import pack, unpack
from cerp.artifact.deflate import deflate
from golden_neighbours import NEIGHBOURS

Change = Callable[[dict[str, Any], dict[str, Any]], object]
"""Of metadata and tensors."""


def forged(change: Change) -> bytes:
    """The golden file with changed metadata or tensors and a checksum that fits."""
    content = unpack(NEIGHBOURS.read_bytes())
    tensors = dict(content.tensors)
    change(content.metadata, tensors)
    return pack(content.metadata, tensors)


def put(name: str, content: bytes) -> Change:
    return lambda meta, tensors: tensors.update({f"neighbours.{name}": deflate(content)})


FORGERIES: list[tuple[Change, str]] = [
    (lambda meta, _: meta.pop("neighbours"), "neighbours are missing"),
    (lambda meta, _: meta.update(backbone="filter"), "the filter is missing"),
    (lambda meta, _: meta.update(backbone="mf"), "neighbours are there"),
    (lambda meta, _: meta.update(layers=1), "goes with 0 layers"),
    (lambda meta, _: meta.update(users=2), "neighbours need no users"),
    (lambda meta, _: meta["neighbours"].update(weights=4), "counts do not add up"),
    (lambda meta, _: meta["neighbours"].update(weights=-5), "must be an integer"),
    (lambda meta, _: meta["neighbours"].update(weights=2**31 - 1), "counts do not add up"),
    (lambda meta, _: meta["neighbours"].update(weights=True), "must be an integer"),
    (lambda meta, _: meta.update(neighbours=[5]), "is not an object"),
    (lambda meta, _: meta.update(items=5), "does not hold the 5 bytes"),
    (lambda meta, tensors: tensors.pop("neighbours.values"), "neighbours.values is missing"),
    (lambda meta, tensors: tensors.pop("neighbours.popularity"), "popularity is missing"),
    (lambda meta, tensors: tensors.update(order=np.zeros(1, np.uint8)), "nothing says what"),
    (put("popularity", bytes(3)), "does not hold the 4 bytes"),
    (put("values", bytes([7, 3, 2, 0, 127])), "integers from -127 to 127"),
    (put("values", bytes([7, 3, 2, 128, 127])), "integers from -127 to 127"),
    (put("values", bytes([7, 3, 2, 1])), "does not hold the 5 bytes"),
    (put("scales", bytes([0x38, 0, 0x7C, 0, 0, 0, 0, 0])), "negative or not finite"),
    (put("scales", bytes([0x38, 0, 0x7E, 0, 0, 0, 0, 0])), "negative or not finite"),
    (put("scales", bytes([0xB8, 0, 0x30, 0, 0, 0, 0, 0])), "negative or not finite"),
    (put("scales", bytes(7)), "does not hold the 8 bytes"),
    (put("counts.classes", bytes([3, 1, 1, 0])), "lead beyond the last item"),
    (put("counts.classes", bytes([5, 0, 0, 0])), "bytes, and its"),
    (put("gaps.classes", bytes([3, 3, 3, 3, 3])), "lead beyond the last item"),
]
"""What is changed, and what the reader in Python says of it."""
