"""An embedding of any model as a file for lookups, an array, or an ONNX model."""

from __future__ import annotations

import os
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


def save_embedding(
    embedding: Embedding,
    path: str | os.PathLike[str],
    *,
    ids: Any = None,
    values: ValuesCodec = "int8",
) -> int:
    """Write the vectors of an embedding; what is written follows from the name of the file.

    - ``.cerp``: the file for lookups, ``cerp.load(path).vectors(ids)``, codebooks as they are;
    - ``.npy``: the whole table in float32, one row for each id;
    - ``.onnx``: a model from ``ids`` (int64, one line) to ``vectors``; needs the package onnx.

    Parameters
    ----------
    embedding
        One whose vectors are rows of tables, such as `cerp.nn.CompositionalEmbedding`.
    path
        Its ending says what is written.
    ids
        What the ids 0..n-1 of the embedding are called, for ``.cerp``: whole numbers in ascending
        order, or strings. The padding has a name, and the vector zero, too.
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
    names = Ids.range(count) if ids is None else Ids(id_column(ids, "vector"))
    if len(names) != count:
        raise DataError(f"there are {len(names):,} ids for {count:,} vectors; give one for each")
    tables = composed(embedding)
    positions = getattr(embedding, "positions", None)
    places = np.arange(count) if positions is None else positions.cpu().numpy()
    if positions is not None or embedding.padding_idx is not None:
        own = tuple(_coded(one, places, embedding.padding_idx) for one in tables.tables)
        tables = ComposedEmbedding(own, tables.combine)
    return ShippedModel(
        facts={"method": type(embedding).__name__, "library": __version__},
        users=Ids.range(0),
        items=names,
        head=None,
        embedding=tables,
    )


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
