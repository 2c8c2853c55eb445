"""Made-up files of sums over histories, which the readers in Python and in the page refuse."""

from __future__ import annotations

from pathlib import Path

from cerp.artifact.container import pack, unpack
from cerp.artifact.deflate import deflate
from forged_neighbours import Change
from golden_sums import SUMS, SUMS_MIXTURE


def forged_sums(change: Change) -> bytes:
    """The golden file with changed metadata or tensors and a checksum that fits."""
    return _forged(SUMS, change)


def forged_mixture(change: Change) -> bytes:
    """The same of the one with a filter beside the sums."""
    return _forged(SUMS_MIXTURE, change)


def _forged(golden: Path, change: Change) -> bytes:
    content = unpack(golden.read_bytes())
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

FORGED_MIXTURES: list[tuple[Change, str]] = [
    (lambda meta, _: meta.pop("sums"), "sums over histories are missing"),
    (lambda meta, _: meta.update(backbone="sums"), "the filter is there"),
    (lambda meta, _: meta.update(backbone="sums+filter"), "the filter is sharpened"),
    (lambda meta, _: meta.update(backbone="mf+sharp-filter"), "sums over histories are there"),
    (lambda meta, _: meta.update(backbone="sums+sums"), "backbone"),
    (lambda meta, _: meta.update(users=0), "seen"),
    (lambda meta, _: meta.update(users=3), "seen"),
    (lambda meta, _: meta.update(layers=2), "goes with 0 layers"),
    (lambda meta, _: meta["filter"].pop("beta"), "beta and epsilon"),
    (lambda meta, _: meta["sums"].update(exponent=65), "exponent"),
    (
        lambda _, tensors: tensors.update({"sums.popularity": deflate(bytes(4))}),
        "nothing says what the tensor sums.popularity is for",
    ),
    (lambda meta, _: meta.update(folding={"alpha": 1, "regularization": 1}), "more beside them"),
]
