"""An embedding of any model, or a collection, as a file for lookups, an array, or an ONNX model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cerp._version import __version__
from cerp.artifact import (
    ComposedEmbedding,
    Encoding,
    Index,
    LookupField,
    ShippedModel,
    Table,
    ValuesCodec,
    encode,
)
from cerp.data.ids import Ids, id_column
from cerp.errors import ConfigError, DataError
from cerp.export.onnx_file import onnx_bytes
from cerp.export.to_arrays import composed
from cerp.files import replacing, write_bytes
from cerp.models.embeddings.base import Embedding
from cerp.models.embeddings.collection import EmbeddingCollection


def save_embedding(
    embedding: Embedding | EmbeddingCollection,
    path: str | os.PathLike[str],
    *,
    ids: Any = None,
    values: ValuesCodec = "int8",
) -> int:
    """Write the vectors of an embedding; what is written follows from the name of the file.

    - ``.cerp``: the file for lookups, ``cerp.load(path).vectors(ids)``, codebooks as they are; of
      a collection, ``cerp.load(path)["user"].vectors(ids)`` for each of its fields;
    - ``.npy``: the whole table in float32, one row for each id;
    - ``.onnx``: a model from ``ids`` (int64, one line) to ``vectors``; needs the package onnx.

    Parameters
    ----------
    embedding
        One whose vectors are rows of tables, such as `cerp.nn.CompositionalEmbedding`; or a
        collection, for ``.cerp`` alone.
    path
        Its ending says what is written.
    ids
        What the ids 0..n-1 of the embedding are called, for ``.cerp``: whole numbers in ascending
        order, or strings. The padding has a name, and the vector zero, too. Of a collection: by
        field; those of fields that are not named are 0..n-1.
    values
        Precision of the values in ``.cerp``; fp32, int8 or int4 in ``.onnx``.

    Returns
    -------
    int
        The size of the file.

    """
    path = Path(path)
    kind = path.suffix.lower()
    if ids is not None and kind != ".cerp":
        raise ConfigError(f"ids are kept in a .cerp file; {path.name} has rows 0, 1, 2, ...")
    if isinstance(embedding, EmbeddingCollection):
        if kind != ".cerp":
            raise ConfigError(
                f"{path.name}: all fields together go to a .cerp file; save collection.shared, "
                "and the tables of collection.dense, to write them apart"
            )
        write_bytes(path, encode(collection_model(embedding, ids), Encoding(values)))
        return path.stat().st_size
    if kind == ".npy":
        with torch.no_grad():
            table = embedding.table().detach().cpu().float().numpy()
        with replacing(path) as scratch, scratch.open("wb") as file:
            np.save(file, table, allow_pickle=False)
    elif kind == ".cerp":
        write_bytes(path, encode(lookup_model(embedding, ids), Encoding(values)))
    elif kind == ".onnx":
        if values not in ("fp32", "int8", "int4"):
            raise ConfigError(f"an ONNX file holds rows in fp32, int8 or int4, not {values}")
        write_bytes(path, onnx_bytes(lookup_model(embedding, None), values))
    else:
        raise ConfigError(f"{path.name}: what to write follows from .cerp, .npy or .onnx")
    return path.stat().st_size


def lookup_model(embedding: Embedding, ids: Any = None) -> ShippedModel:
    """The tables of an embedding as a model for lookups."""
    count = embedding.num_embeddings
    return ShippedModel(
        facts={"method": type(embedding).__name__, "library": __version__},
        users=Ids.range(0),
        items=_names(ids, count, "vectors"),
        head=None,
        embedding=_tables(embedding, count),
    )


def collection_model(
    collection: EmbeddingCollection, ids: Mapping[str, Any] | None = None
) -> ShippedModel:
    """The tables of a collection as a model for lookups in its fields."""
    ids = {} if ids is None else ids
    if not isinstance(ids, Mapping):
        raise ConfigError("ids of a collection are given by field, as {'user': [...], ...}")
    if unknown := set(ids) - set(collection.fields):
        raise DataError(f"unknown field {min(unknown)!r}; there are {', '.join(collection.fields)}")
    whole = {
        name: weight.detach().cpu().float().numpy() for name, weight in collection.dense.items()
    }
    shared = collection.shared
    if shared is not None:
        tables = _tables(shared, shared.num_embeddings)
    else:  # all are stored whole, one behind the other
        stacked = np.concatenate([whole[name] for name in collection.fields])
        tables, whole = ComposedEmbedding((Table(Index("identity"), stacked),)), {}
    fields = tuple(
        LookupField(name, _names(ids.get(name), count, f"ids of field {name!r}"), whole.get(name))
        for name, count in collection.fields.items()
    )
    return ShippedModel(
        facts={"method": type(collection).__name__, "library": __version__},
        users=Ids.range(0),
        items=Ids.range(sum(len(field.ids) for field in fields if field.table is None)),
        head=None,
        embedding=tables,
        fields=fields,
    )


def _names(ids: Any, count: int, what: str) -> Ids:
    """Ids of their own, or 0, 1, 2, ..."""
    names = Ids.range(count) if ids is None else Ids(id_column(ids, "vector"))
    if len(names) != count:
        raise DataError(f"there are {len(names):,} ids for {count:,} {what}; give one for each")
    return names


def _tables(embedding: Embedding, count: int) -> ComposedEmbedding:
    """The tables, with the rows of each id by codes where an order or a padding asks for it."""
    tables = composed(embedding)
    positions = getattr(embedding, "positions", None)
    places = np.arange(count) if positions is None else positions.cpu().numpy()
    if positions is not None or embedding.padding_idx is not None:
        own = tuple(_coded(one, places, embedding.padding_idx) for one in tables.tables)
        tables = ComposedEmbedding(own, tables.combine)
    return tables


def _coded(table: Table, places: Any, padding: int | None) -> Table:
    """The same rows, by codes: a file for lookups knows no order, and no padding but zero."""
    rows = table.index.rows(places, len(places)).astype(np.int32)
    weight, mask = table.weight, table.stored
    if padding is not None:
        rows[padding] = len(weight)
        weight = np.concatenate([weight, np.zeros_like(weight[:1])])
        mask = np.concatenate([mask, np.zeros_like(mask[:1])])
    kept = replace(table, index=Index("coded", len(weight), codes=rows), weight=weight)
    return replace(kept, mask=None if mask.all() else mask)
