"""A whole model to bytes and back; docs/format.md says what each byte means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cerp.artifact import sections
from cerp.artifact.checks import problem
from cerp.artifact.cold_start import needed_cold_start
from cerp.artifact.container import Buffer, pack, unpack
from cerp.artifact.embedding import decode_embedding, encode_embedding, stored_precision
from cerp.artifact.fields import MAX_SIZE, Fields
from cerp.artifact.model import (
    ComposedEmbedding,
    FloatArray,
    LookupField,
    PropagatedTables,
    ShippedModel,
)
from cerp.artifact.names import decode_ids, encode_ids
from cerp.artifact.permutation import decode_permutation, encode_permutation
from cerp.artifact.quantize import VALUES_CODECS, ValuesCodec, finite, to_half
from cerp.artifact.scoring_words import read_scoring, word_of
from cerp.artifact.tensors import TensorReader, Tensors
from cerp.data.ids import Ids
from cerp.errors import ConfigError, DataError, FileFormatError, MalformedFileError
from cerp.files import write_bytes
from cerp.naming import prefixed

FREE_ENTITIES = 2**20
ENTITIES_PER_BYTE = 64
"""A file may not claim more entities than `FREE_ENTITIES` and so many for each of its bytes."""


class StoredVectors(NamedTuple):
    """What vectors are made of, and what scores them."""

    embedding: ComposedEmbedding | PropagatedTables | None
    weights: dict[str, FloatArray]
    """Of a tower."""


@dataclass(frozen=True)
class Encoding:
    """How a model is written, and what of it."""

    values: ValuesCodec = "fp32"
    """Of embedding tables; a tower's weights are half precision unless this is fp32."""
    seen: bool = True
    """Keep the training interactions; the filter cannot do without, nor propagation unless the
    tables are propagated."""
    ids: bool = True
    """Keep the original ids; without them, codes are the ids."""
    titles: bool = True
    """Keep the titles of items."""
    popularity: bool = False
    """Without the interactions: keep how many users took each item also where every user has
    training rows, so that someone without any items can be given the popular ones."""

    def __post_init__(self) -> None:
        if self.values not in VALUES_CODECS:
            raise ConfigError(
                f"unknown value codec {self.values!r}; choose one of {', '.join(VALUES_CODECS)}"
            )


def encode(model: ShippedModel, encoding: Encoding, *, is_random: bool = False) -> bytes:
    """The file of a model; the same bytes for the same model and encoding.

    ``is_random``: which values are stored was drawn, not learned, so that no
    time is spent on finding a pattern.
    """
    model = _without_left_out(model, encoding)
    found = problem(model)
    if found is not None:
        raise ConfigError(f"the model cannot be written: {found}")
    embedding: dict[str, Any] | None = None
    tensors: Tensors = {}
    if model.embedding is not None:
        embedding, tensors = encode_embedding(
            model.embedding,
            encoding.values,
            is_random=is_random,
            stacks_books=model.fields is not None,
        )
    metadata: dict[str, Any] = {
        "backbone": word_of(model),
        "embedding": embedding,
        "facts": model.facts,
        "ids": {},
        "items": len(model.items),
        "layers": model.layers,
        "order": "codes",
        "seen": None,
        "titles": None,
        "users": len(model.users),
    }
    if model.positions is not None:
        metadata["order"] = "lehmer"
        tensors["order"] = encode_permutation(model.positions)
    tensors |= prefixed("backbone", _encode_weights(model.weights, encoding.values))
    for side, ids in (("users", model.users), ("items", model.items)):
        metadata["ids"][side], coded = encode_ids(ids, side)
        tensors |= prefixed(side, coded)
    kept = [part for part in sections.OPTIONAL_PARTS if getattr(model, part.field) is not None]
    for part in kept:
        metadata[part.field], coded = part.encode(model)
        tensors |= coded
    if skippable := [part.field for part in kept if part.may_be_skipped]:
        metadata["optional"] = skippable
    file = pack(metadata, tensors)
    if not _may_have(len(model.users) + len(model.items), len(file)):
        raise ConfigError(
            f"{len(model.users) + len(model.items):,} entities in {len(file):,} bytes: readers "
            "refuse so many, because they could fill their memory; store more values"
        )
    return file


def decode(data: Buffer) -> ShippedModel:
    """The model in a file.

    Whatever the bytes, the result is a usable model or a `FileFormatError`, and
    the memory taken is bounded by a multiple of the file's size.
    """
    content, file_size = unpack(data), len(data)
    fields, tensors = Fields(content.metadata), TensorReader(content.tensors)
    num_users, num_items = fields.whole("users"), fields.whole("items")
    num_entities = num_users + num_items
    if num_entities > MAX_SIZE or not _may_have(num_entities, file_size):
        raise MalformedFileError(
            f"{num_entities:,} entities are claimed by a file of {file_size:,} bytes; "
            f"{ENTITIES_PER_BYTE} for each byte are the most that is accepted"
        )
    positions = None
    if fields.choice("order", ("codes", "lehmer")) == "lehmer":
        positions = decode_permutation(tensors.byte_array("order"), num_entities)
    around = sections.Surroundings(num_users, num_items, positions)
    parts: dict[str, Any] = {}
    for part in sections.OPTIONAL_PARTS:
        if part.field in fields:
            parts[part.field] = part.decode(fields.group(part.field), tensors, around)
            around = around._replace(seen=parts.get("seen"))
    head, layers = read_scoring(fields)
    embedding = fields.group("embedding") if "embedding" in fields else None
    users_in_tables = 0 if "sums" in parts else num_users
    model = ShippedModel(
        facts=fields.group("facts").values,
        users=decode_ids(fields.group("ids").group("users"), tensors.under("users"), num_users),
        items=decode_ids(fields.group("ids").group("items"), tensors.under("items"), num_items),
        head=head,
        embedding=(
            None
            if embedding is None
            else decode_embedding(embedding, tensors, users_in_tables, num_items)
        ),
        positions=positions,
        layers=layers,
        precision=None if embedding is None else stored_precision(embedding),
        weights=_decode_weights(tensors.under("backbone")),
        **parts,
    )
    optional = fields.words("optional") if "optional" in fields else []
    if unknown := [name for name in tensors.unread if name.partition(".")[0] not in optional]:
        raise MalformedFileError(f"nothing says what the tensor {min(unknown)} is for")
    found = problem(model)
    if found is not None:
        raise MalformedFileError(found)
    return model


def decode_vectors(data: Buffer) -> StoredVectors:
    """Of the model in a file what its vectors are made of: for who has all the rest already."""
    content = unpack(data)
    fields, tensors = Fields(content.metadata), TensorReader(content.tensors)
    embedding = None
    if "embedding" in fields:
        num_users, num_items = fields.whole("users"), fields.whole("items")
        embedding = decode_embedding(fields.group("embedding"), tensors, num_users, num_items)
    return StoredVectors(embedding, _decode_weights(tensors.under("backbone")))


def write(path: Path | str, model: ShippedModel, encoding: Encoding) -> int:
    """Write a model, whole or not at all; the size of the file."""
    data = encode(model, encoding)
    write_bytes(Path(path), data)
    return len(data)


def read(path: Path | str) -> ShippedModel:
    """The model in a file."""
    return read_whole(path)[1]


def read_whole(path: Path | str) -> tuple[bytes, ShippedModel]:
    """The bytes of a file and the model in them: whatever becomes of the file changes neither.

    Dense fp32 tables are views of the bytes. The file is not memory-mapped:
    another that was copied over it would change the model, or end the process.
    """
    try:
        data = Path(path).read_bytes()
    except IsADirectoryError:
        inside = ", ".join(map(str, sorted(Path(path).glob("*.cerp")))) or "there is none in it"
        raise DataError(f"{path} is a folder; name a model file (.cerp): {inside}") from None
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror}; name a model file (.cerp), such as "
            "a finished run has in its folder"
        ) from None
    try:
        return data, decode(data)
    except FileFormatError as error:
        raise type(error)(f"{path}: {error}") from None


def _may_have(num_entities: int, file_size: int) -> bool:
    return num_entities <= FREE_ENTITIES + ENTITIES_PER_BYTE * file_size


def _without_left_out(model: ShippedModel, encoding: Encoding) -> ShippedModel:
    """The model without what the encoding leaves out."""
    users, items = model.users, model.items
    if not encoding.ids:
        users, items = Ids.range(len(users)), Ids.range(len(items))
    seen, cold = model.seen, model.cold
    if seen is not None and not encoding.seen:
        cold = needed_cold_start(seen, len(items), popularity=encoding.popularity)
        seen = None
    # Propagated tables are indexed by code: only the seen interactions profit from an order.
    is_ordered = isinstance(model.embedding, ComposedEmbedding) or seen is not None
    return replace(
        model,
        users=users,
        items=items,
        seen=seen,
        cold=cold,
        titles=model.titles if encoding.titles else None,
        positions=model.positions if is_ordered else None,
        fields=None if model.fields is None else _written(model.fields, encoding),
    )


def _written(fields: tuple[LookupField, ...], encoding: Encoding) -> tuple[LookupField, ...]:
    """Fields with ids and precision as the encoding says."""
    return tuple(
        replace(
            field,
            ids=field.ids if encoding.ids else Ids.range(len(field.ids)),
            values=encoding.values,
        )
        for field in fields
    )


def _encode_weights(weights: dict[str, FloatArray], values: ValuesCodec) -> Tensors:
    if values == "fp32":
        return {name: weight.astype(np.float32) for name, weight in weights.items()}
    return {name: to_half(weight, f"the weight {name}") for name, weight in weights.items()}


def _decode_weights(tensors: TensorReader) -> dict[str, FloatArray]:
    return {
        name: finite(tensors.any_shape(name, np.float32, np.float16), tensors.name(name))
        for name in tensors.names
    }
