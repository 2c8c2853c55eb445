"""The vectors of a model for indexes and other programs: NumPy, or Parquet with DuckDB.

``score(u, i) = ⟨v_u, v_i⟩``: an index must look for the largest *inner product*, not for the
largest cosine or the least distance. What users have seen is not in the vectors.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cerp.artifact.model import FloatArray
from cerp.data.formats.duckdb_memory import Database
from cerp.errors import ConfigError
from cerp.files import refuse_unwritable, replacing, write_json
from cerp.runtime.recommending import Runtime
from cerp.runtime.vectors import vectors_of

PARQUET = (".parquet", ".pq")


def final_tables(runtime: Runtime) -> tuple[FloatArray, FloatArray]:
    """The vectors of users and of items, by code, whose inner products are the scores."""
    model = runtime.model
    if model.head != "dot" or model.filter is not None:
        raise ConfigError(
            f"the scores here ({runtime.scoring}) are no inner products of two vectors, so "
            "that no index of vectors ranks as it does; train 'lightgcn' or 'mf' for that"
        )
    vectors = vectors_of(model)
    return vectors.users(np.arange(len(model.users), dtype=np.int32)), vectors.items


def refuse_vectors(path: Path) -> None:
    """Refuse a name that no table of vectors can have."""
    if path.suffix not in (".npy", *PARQUET):
        raise ConfigError(f"{path}: vectors are written as .npy or .parquet files")
    refuse_unwritable(path)


def write_vectors(runtime: Runtime, path: Path) -> int:
    """Write them, and say how many there are.

    Parquet has the columns ``kind`` (user or item), ``id`` (as text) and ``vector``. An ``.npy``
    file has a row for every user and then for every item, and the ids are in a file beside it:
    ``vectors.npy`` and ``vectors.ids.json``.
    """
    refuse_vectors(path)
    users, items = final_tables(runtime)
    table = np.concatenate([users, items])
    ids = {"users": runtime.users.values.tolist(), "items": runtime.items.values.tolist()}
    with replacing(path) as scratch:
        if path.suffix == ".npy":
            with scratch.open("wb") as file:
                np.save(file, table, allow_pickle=False)
        else:
            _write_parquet(scratch, table, ids)
    if path.suffix == ".npy":
        write_json(path.with_suffix(".ids.json"), ids)
    return len(table)


def _write_parquet(path: Path, table: FloatArray, ids: dict[str, list[int | str]]) -> None:
    kinds = ["user"] * len(ids["users"]) + ["item"] * len(ids["items"])
    names = np.array([str(one) for one in (*ids["users"], *ids["items"])], dtype=object)
    columns = {f"c{k}": np.ascontiguousarray(table[:, k]) for k in range(table.shape[1])}
    with Database() as database:
        database.register("given", {"kind": np.array(kinds, dtype=object), "id": names, **columns})
        target = str(path).replace("'", "''")
        values = ", ".join(columns)
        database.rows(
            f"copy (select kind::varchar as kind, id::varchar as id, [{values}]::float[] as vector "
            f"from given) to '{target}' (format parquet, use_tmp_file false)"
        )
