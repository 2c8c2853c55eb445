"""Made-up files of sums over histories, which the readers in Python and in the page refuse."""

from __future__ import annotations

from cerp.artifact.container import pack, unpack
from cerp.artifact.deflate import deflate
from forged_neighbours import Change
from golden_sums import SUMS


def forged_sums(change: Change) -> bytes:
    """The golden file with changed metadata or tensors and a checksum that fits."""
    content = unpack(SUMS.read_bytes())
    tensors = dict(content.tensors)
    change(content.metadata, tensors)
    return pack(content.metadata, tensors)


FORGED_SUMS: list[tuple[Change, str]] = [
    (lambda meta, _: meta.pop("sums"), "sums over histories are missing"),
    (lambda meta, _: meta.update(backbone="mf"), "sums over histories are there"),
    (lambda meta, _: meta.update(layers=2), "goes with 0 layers"),
    (lambda meta, _: meta["sums"].update(exponent=65), "exponent"),
    (lambda meta, _: meta["sums"].update(exponent=-1), "exponent"),
    (lambda meta, _: meta["sums"].update(exponent=0.5), "exponent"),
    (lambda meta, _: meta.update(sums=[1]), "is not an object"),
    (lambda _, tensors: tensors.pop("sums.popularity"), "sums.popularity"),
    (
        lambda _, tensors: tensors.update({"sums.popularity": deflate(bytes(3))}),
        "sums.popularity",
    ),
]
