"""Vectors from files of many kinds."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import torch
from safetensors.torch import save_file

from cerp.compression.reading import open_vectors
from cerp.errors import DataError

VECTORS = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
WORDS = ["one", "zwei", "été", "four"]


def all_of(source: Any, ids: Any = None, key: str | None = None) -> np.ndarray:
    return open_vectors(source, ids, key).rows(slice(None))


def test_arrays_tensors_lists_and_frames_are_tables():
    for source in (
        VECTORS,
        VECTORS.astype(np.float64),
        torch.from_numpy(VECTORS),
        VECTORS.tolist(),
    ):
        assert np.array_equal(all_of(source), VECTORS)
    frame = pd.DataFrame(VECTORS, index=WORDS)
    assert open_vectors(frame).ids.values.tolist() == WORDS
    assert np.array_equal(all_of(frame), VECTORS)


def test_an_npy_file_is_mapped_and_not_read(tmp_path: Path):
    np.save(tmp_path / "x.npy", VECTORS)
    table = open_vectors(tmp_path / "x.npy")
    assert isinstance(table.values, np.memmap)
    assert np.array_equal(table.rows(np.array([2, 0])), VECTORS[[2, 0]])


def test_an_npz_file_has_one_table_or_a_key(tmp_path: Path):
    np.savez(tmp_path / "one.npz", vectors=VECTORS, counts=np.arange(4))
    assert np.array_equal(all_of(tmp_path / "one.npz"), VECTORS)
    # As implicit's models are saved.
    np.savez(tmp_path / "als.npz", user_factors=VECTORS[:2], item_factors=VECTORS, factors=3)
    assert np.array_equal(all_of(tmp_path / "als.npz", key="item_factors"), VECTORS)
    with pytest.raises(DataError, match="say by key which table: item_factors, user_factors"):
        all_of(tmp_path / "als.npz")
    with pytest.raises(DataError, match="no table 'factors'"):
        all_of(tmp_path / "als.npz", key="factors")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_safetensors_and_state_dicts_by_key(dtype: torch.dtype, tmp_path: Path):
    tensor = torch.from_numpy(VECTORS).to(dtype)
    state = {"items.weight": tensor, "bias": torch.zeros(3)}
    save_file(state, tmp_path / "m.safetensors")
    torch.save(state, tmp_path / "m.pt")
    torch.save({**state, "more": tensor}, tmp_path / "m.bin")
    expected = tensor.float().numpy()
    assert np.array_equal(all_of(tmp_path / "m.safetensors"), expected)
    assert np.array_equal(all_of(tmp_path / "m.pt"), expected)
    assert np.array_equal(all_of(tmp_path / "m.bin", key="items.weight"), expected)


def test_a_pickle_that_would_run_something_is_refused(tmp_path: Path):
    torch.save({"model": torch.nn.Linear(2, 2)}, tmp_path / "m.pt")
    with pytest.raises(DataError, match="no plain state dict"):
        all_of(tmp_path / "m.pt")


def test_word2vec_text_and_binary(tmp_path: Path):
    lines = [" ".join([word, *map(repr, row.tolist())]) for word, row in zip(WORDS, VECTORS)]  # noqa: B905
    (tmp_path / "x.vec").write_text("4 3\n" + "\n".join(lines) + "\n", "utf-8")
    packed = b"".join(
        word.encode() + b" " + struct.pack("<3f", *row) + b"\n"
        for word, row in zip(WORDS, VECTORS, strict=True)
    )
    (tmp_path / "x.bin").write_bytes(b"4 3\n" + packed)
    for name in ("x.vec", "x.bin"):
        table = open_vectors(tmp_path / name)
        assert table.ids.values.tolist() == WORDS
        np.testing.assert_allclose(table.rows(slice(None)), VECTORS, rtol=1e-6)
    (tmp_path / "short.bin").write_bytes(b"4 3\n" + packed[:-5])
    with pytest.raises(DataError, match="ends in the middle of word 4"):
        open_vectors(tmp_path / "short.bin")
    (tmp_path / "bad.vec").write_text("4 3\none 1 2\n" + "\n" * 200)
    with pytest.raises(DataError, match="line 2: there should be a word and 3 values"):
        open_vectors(tmp_path / "bad.vec")
    (tmp_path / "none.vec").write_text("one 1 2 3\n")
    with pytest.raises(DataError, match="line 1"):
        open_vectors(tmp_path / "none.vec")


def test_a_column_of_parquet_or_arrow(tmp_path: Path):
    table = pa.table({"name": WORDS, "vector": VECTORS.tolist()})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    pyarrow.feather.write_feather(table, tmp_path / "x.arrow")
    for name in ("x.parquet", "x.arrow"):
        found = open_vectors(tmp_path / name, ids="name")
        assert found.ids.values.tolist() == WORDS
        np.testing.assert_allclose(found.rows(slice(None)), VECTORS, rtol=1e-6)
    with pytest.raises(DataError, match="no column 'id'"):
        open_vectors(tmp_path / "x.parquet", ids="id")
    ragged = pa.table({"vector": [[1.0], [1.0, 2.0], [1.0, 2.0, 3.0]]})
    pyarrow.parquet.write_table(ragged, tmp_path / "r.parquet")
    with pytest.raises(DataError, match="different lengths"):
        open_vectors(tmp_path / "r.parquet")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.npy", b"nothing"),
        ("x.npz", b"nothing"),
        ("x.safetensors", b"\xff" * 20),
        ("x.pt", b"nothing"),
        ("x.parquet", b"nothing"),
        ("x.docx", b"nothing"),
    ],
)
def test_a_file_that_is_something_else_is_named(name: str, content: bytes, tmp_path: Path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=name):
        open_vectors(tmp_path / name)


class FittedModel:
    """As those of `implicit` are: two tables of factors, None before they are fitted."""

    item_factors: np.ndarray | None = None
    user_factors: np.ndarray | None = None


def test_a_fitted_model_has_vectors_of_items_and_of_users():
    model = FittedModel()
    model.item_factors, model.user_factors = np.eye(3), np.ones((2, 3))
    assert np.array_equal(all_of(model), np.eye(3))
    assert np.array_equal(all_of(model, key="user_factors"), np.ones((2, 3)))
    with pytest.raises(DataError, match="not 'items'"):
        open_vectors(model, key="items")
    with pytest.raises(DataError, match="fit it first"):
        open_vectors(FittedModel())
