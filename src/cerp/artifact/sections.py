"""The sections of a file: which bytes each one covers, and how what a model may lack is stored.

The one list that writing, reading, accounting, `cerp inspect` and the report
go by; docs/format.md says how to add a section.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from cerp.artifact.cold_start import decode_cold_start, encode_cold_start
from cerp.artifact.deflate import deflate
from cerp.artifact.edges import decode_seen, encode_seen
from cerp.artifact.fields import Fields
from cerp.artifact.lookup_fields import decode_fields, encode_fields
from cerp.artifact.model import (
    ColdStart,
    LeastSquares,
    LookupField,
    Projection,
    Seen,
    ShippedModel,
    Tastes,
    popularity_of,
)
from cerp.artifact.names import decode_strings, encode_strings
from cerp.artifact.neighbours import decode_neighbours, encode_neighbours
from cerp.artifact.quantize import finite, to_half
from cerp.artifact.tensors import TensorReader, Tensors
from cerp.data.ids import Int32Array
from cerp.errors import MalformedFileError
from cerp.graph.arithmetic import LARGEST_EXPONENT, UNIT
from cerp.graph.filter import Exponents
from cerp.graph.history_sums import HistorySums
from cerp.graph.neighbours import Neighbours
from cerp.graph.sharpening import LARGEST_STRENGTH, MOST_TIMES, Sharpening
from cerp.graph.term import LARGEST_BETA, SMALLEST_EPSILON, FilterTerm, Mixing
from cerp.naming import prefixed


@dataclass(frozen=True)
class Section:
    """Bytes of a file that are shown as one figure."""

    name: str
    tensors: tuple[str, ...]
    """Patterns of the names of its tensors."""
    is_embedding: bool = False
    """Whether a byte budget counts it."""
    in_place_of: tuple[str, ...] = ()
    """Patterns of a section that no file has beside this one; they share a colour."""


SECTIONS = (
    Section(
        "codebook values",
        ("embedding.*.values", "propagated.*.values", "fields.*.values"),
        is_embedding=True,
    ),
    Section("weights", ("neighbours.values",), is_embedding=True),
    Section(
        "positions",
        ("embedding.*.positions.*", "neighbours.counts.*", "neighbours.gaps.*"),
        is_embedding=True,
    ),
    Section("codes", ("embedding.*.codes",), is_embedding=True),
    Section(
        "scales",
        ("embedding.*.scales", "propagated.*.scales", "fields.*.scales", "neighbours.scales"),
        is_embedding=True,
    ),
    # Also where ids are stored: those are in native order, so that no id map carries it
    # (docs/format.md says why).
    Section("order", ("order",), is_embedding=True),
    Section("projection", ("projection.*",), is_embedding=True),
    Section("backbone", ("backbone.*", "tastes.*")),
    Section("popularity", ("neighbours.popularity", "sums.popularity")),
    # The same interactions: a graph where scores come from it, else what users know.
    Section("graph", ("seen.*",)),
    Section("seen", ("seen.*",)),
    Section("cold start", ("cold.*",), in_place_of=("seen.*",)),
    Section("ids", ("users.ids*", "items.ids*", "fields.*.ids*")),
    Section("titles", ("titles",)),
    Section("header", ()),
)
"""In the order in which they are shown."""


class Surroundings(NamedTuple):
    """What is known of a model while its parts are read."""

    num_users: int
    num_items: int
    positions: Int32Array | None
    seen: Seen | None = None
    """Once it is read."""


@dataclass(frozen=True)
class OptionalPart:
    """A field of `ShippedModel` that can be None, on its way into a file and out of one."""

    field: str
    """Of the model; also the key in the metadata, and the first word of its tensors' names."""
    encode: Callable[[ShippedModel], tuple[dict[str, Any], Tensors]]
    """The entry in the metadata, and the tensors."""
    decode: Callable[[Fields, TensorReader, Surroundings], Any]
    """The field's value, from that entry and all tensors."""
    may_be_skipped: bool = False
    """Whether a reader that does not know this part can do without."""


def _encode_seen(model: ShippedModel) -> tuple[dict[str, Any], Tensors]:
    assert model.seen is not None
    coded = encode_seen(model.seen, len(model.items), model.positions)
    return {"edges": len(model.seen.items)}, prefixed("seen", coded)


def _decode_seen(fields: Fields, tensors: TensorReader, around: Surroundings) -> Seen:
    edges = fields.whole("edges")
    return decode_seen(
        tensors.under("seen"), around.num_users, around.num_items, edges, around.positions
    )


def _encode_cold(model: ShippedModel) -> tuple[dict[str, Any], Tensors]:
    assert model.cold is not None
    return encode_cold_start(model.cold)


def _decode_cold(fields: Fields, tensors: TensorReader, around: Surroundings) -> ColdStart:
    return decode_cold_start(fields, tensors, around.num_users, around.num_items)


def _encode_folding(model: ShippedModel) -> tuple[dict[str, Any], Tensors]:
    assert model.folding is not None
    return asdict(model.folding), {}


def _decode_folding(fields: Fields, tensors: TensorReader, around: Surroundings) -> LeastSquares:
    names = ("alpha", "regularization")
    bounds = {"smallest": SMALLEST_FOLDING, "largest": LARGEST_FOLDING}
    return LeastSquares(*(fields.number(name, **bounds) for name in names))


def _encode_titles(model: ShippedModel) -> tuple[dict[str, Any], Tensors]:
    assert model.titles is not None
    text = encode_strings(model.titles, "titles")
    return {"bytes": len(text)}, {"titles": deflate(text)}


def _decode_titles(fields: Fields, tensors: TensorReader, around: Surroundings) -> list[str]:
    return decode_strings(tensors, "titles", fields.whole("bytes"), around.num_items)


def _encode_filter(model: ShippedModel) -> tuple[dict[str, Any], Tensors]:
    assert model.filter is not None
    exponents, mixing = model.filter.exponents, model.filter.mixing
    entry: dict[str, Any] = {name: int(getattr(exponents, name) / UNIT) for name in EXPONENT_NAMES}
    if mixing is not None:
        entry |= {"beta": mixing.beta, "epsilon": mixing.epsilon}
    if (sharpening := model.filter.sharpening) is not None:
        strength, times = sharpening.strength, sharpening.times
        entry |= {"m": int(sharpening.m / UNIT), "strength": strength, "times": times}
    return entry, {}


def _decode_filter(fields: Fields, tensors: TensorReader, around: Surroundings) -> FilterTerm:
    most = int(LARGEST_EXPONENT / UNIT)
    exponents = Exponents(*(fields.whole(name, largest=most) * UNIT for name in EXPONENT_NAMES))
    mixing = sharpening = None
    if "beta" in fields:
        beta = fields.number("beta", smallest=0, largest=LARGEST_BETA)
        epsilon = fields.number("epsilon", smallest=SMALLEST_EPSILON, largest=1)
        mixing = Mixing(beta, epsilon)
    if "m" in fields:
        m = fields.whole("m", largest=most) * UNIT
        strength = fields.number("strength", smallest=0, largest=LARGEST_STRENGTH)
        times = fields.whole("times", smallest=1, largest=MOST_TIMES)
        sharpening = Sharpening(m, strength, times)
    return FilterTerm(exponents, mixing, sharpening)


def _encode_neighbours(model: ShippedModel) -> tuple[dict[str, Any], Tensors]:
    assert model.neighbours is not None
    entry, coded = encode_neighbours(model.neighbours)
    return entry, prefixed("neighbours", coded)


def _decode_neighbours(fields: Fields, tensors: TensorReader, around: Surroundings) -> Neighbours:
    return decode_neighbours(fields, tensors.under("neighbours"), around.num_items)


def _encode_sums(model: ShippedModel) -> tuple[dict[str, Any], Tensors]:
    assert model.sums is not None
    entry = {"exponent": int(model.sums.exponent / UNIT)}
    if model.seen is not None:  # which says how often each item was taken
        return entry, {}
    popularity = deflate(model.sums.popularity.tobytes())
    return entry, prefixed("sums", {"popularity": popularity})


def _decode_sums(fields: Fields, tensors: TensorReader, around: Surroundings) -> HistorySums:
    exponent = fields.whole("exponent", largest=int(LARGEST_EXPONENT / UNIT)) * UNIT
    if around.seen is not None:
        return HistorySums(exponent, popularity_of(around.seen, around.num_items))
    levels = tensors.under("sums").inflate("popularity", around.num_items)
    return HistorySums(exponent, np.frombuffer(levels, dtype=np.uint8))


def _encode_tastes(model: ShippedModel) -> tuple[dict[str, Any], Tensors]:
    assert model.tastes is not None
    found = {"mean": model.tastes.mean, "variance": model.tastes.variance}
    return {"columns": len(model.tastes.mean)}, prefixed("tastes", found)


def _decode_tastes(fields: Fields, tensors: TensorReader, around: Surroundings) -> Tastes:
    columns, own = fields.whole("columns", smallest=1), tensors.under("tastes")
    mean, variance = (
        finite(own.array(name, np.float32, columns), own.name(name))
        for name in ("mean", "variance")
    )
    if (variance < 0).any():
        raise MalformedFileError(f"the tensor {own.name('variance')} holds a negative variance")
    return Tastes(mean, variance)


def _encode_projection(model: ShippedModel) -> tuple[dict[str, Any], Tensors]:
    assert model.projection is not None
    matrix, mean, scale = model.projection.matrix, model.projection.mean, model.projection.scale
    entry = {"inputs": matrix.shape[0], "outputs": matrix.shape[1], "scale": scale}
    tensors: Tensors = {
        "matrix": to_half(matrix.reshape(-1), "a number of the projection"),
        "mean": mean,
    }
    return entry, prefixed("projection", tensors)


def _decode_projection(fields: Fields, tensors: TensorReader, around: Surroundings) -> Projection:
    inputs, outputs = fields.whole("inputs", smallest=1), fields.whole("outputs", smallest=1)
    scale = fields.number("scale", smallest=SMALLEST_SCALE, largest=LARGEST_SCALE)
    own = tensors.under("projection")
    matrix = finite(own.array("matrix", np.float16, inputs * outputs), own.name("matrix"))
    mean = finite(own.array("mean", np.float32, outputs), own.name("mean"))
    return Projection(matrix.reshape(inputs, outputs), mean, scale)


def _encode_fields(model: ShippedModel) -> tuple[dict[str, Any], Tensors]:
    assert model.fields is not None
    return encode_fields(model.fields)


def _decode_fields(
    fields: Fields, tensors: TensorReader, around: Surroundings
) -> tuple[LookupField, ...]:
    return decode_fields(fields, tensors, around.num_items)


SMALLEST_SCALE, LARGEST_SCALE = 1e-30, 1e30
"""Of a projection: its products with halves stay within 32-bit floats."""

EXPONENT_NAMES = ("q", "p", "r")
"""Of the filter, in the order of `Exponents`; stored as multiples of 1/32."""

SMALLEST_FOLDING, LARGEST_FOLDING = 1e-6, 1e6
"""Bounds of what folding in by least squares is told."""

OPTIONAL_PARTS = (
    OptionalPart("seen", _encode_seen, _decode_seen),
    OptionalPart("cold", _encode_cold, _decode_cold),
    OptionalPart("filter", _encode_filter, _decode_filter),
    OptionalPart("neighbours", _encode_neighbours, _decode_neighbours),
    OptionalPart("sums", _encode_sums, _decode_sums),
    OptionalPart("tastes", _encode_tastes, _decode_tastes),
    # A reader that does not know it folds in as it does for any model.
    OptionalPart("folding", _encode_folding, _decode_folding, may_be_skipped=True),
    OptionalPart("titles", _encode_titles, _decode_titles),
    OptionalPart("projection", _encode_projection, _decode_projection),
    OptionalPart("fields", _encode_fields, _decode_fields),
)
"""In the order in which they are read."""


def section_of(tensor: str) -> str:
    """The first section that covers a tensor; one of a later version goes by its first word."""
    for section in SECTIONS:
        if any(fnmatchcase(tensor, pattern) for pattern in section.tensors):
            return section.name
    return tensor.partition(".")[0]


def section_number(name: str) -> int:
    """The place of a section in the list, for a colour of its own.

    Sections of the same tensors share one, since no file has both; one that is not
    in the list comes last.
    """
    tensors = {section.name: section.in_place_of or section.tensors for section in SECTIONS}
    covered = list(dict.fromkeys(tensors.values()))
    return covered.index(tensors[name]) if name in tensors else len(covered)
