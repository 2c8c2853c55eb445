"""Tables of vectors from files and frames, by what they are; large ones stay in their files."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.compression.tables import VectorTable, table_of
from cerp.compression.word2vec import is_word2vec, read_word2vec
from cerp.data.ids import Float32Array
from cerp.errors import DataError, MissingExtra

SAFETENSORS: dict[str, type[np.generic]] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": np.uint16,
    "I8": np.int8,
    "I16": np.int16,
    "I32": np.int32,
    "U8": np.uint8,
}
LONGEST_HEADER = 100 * 2**20
"""Of a safetensors file, as its own library has it."""
KINDS = (
    ".npy, .npz (implicit's models too), .safetensors, .pt or .pth (a PyTorch state dict), "
    ".parquet, .arrow or .feather, and word2vec's .txt, .vec and .bin"
)


def open_vectors(source: Any, ids: Any = None, key: str | None = None) -> VectorTable:
    """A table of an array, a data frame, a PyTorch tensor, or a file of one of many kinds.

    Parameters
    ----------
    source
        An array or tensor (rows, numbers); a pandas frame, whose index are the ids; a fitted model
        of ``implicit``; or a path.
    ids
        One id for each row, whole numbers or strings; for Parquet and Arrow also the name of
        their column. By default 0..n-1, or what the source says: words, or the index of a frame.
    key
        Which array of a file that holds several: an entry of .npz, .safetensors or a state
        dict, or the column of vectors. Of a model ``item_factors``, by default, or
        ``user_factors``.

    """
    if isinstance(source, str | Path):
        return _opened(Path(source), ids, key)
    if hasattr(source, "item_factors"):
        source = _factors(source, "item_factors" if key is None else key)
    if hasattr(source, "detach"):
        source = source.detach().cpu().float().numpy()
    if hasattr(source, "to_numpy") and hasattr(source, "index"):
        given = source.index.to_numpy() if ids is None else ids
        return table_of(source.to_numpy(), given, name="the frame")
    return table_of(source if hasattr(source, "shape") else np.asarray(source), ids)


def _factors(model: Any, key: str) -> Any:
    """Vectors of a fitted model of ``implicit``, from a GPU too."""
    if key not in ("item_factors", "user_factors"):
        raise DataError(f"a model has item_factors and user_factors, not {key!r}")
    found = getattr(model, key)
    if found is None:
        raise DataError(f"the model has no {key} yet; fit it first")
    return found.to_numpy() if hasattr(found, "to_numpy") else found


def _opened(path: Path, ids: Any, key: str | None) -> VectorTable:
    if not path.is_file():
        raise DataError(f"cannot read {path}: there is no such file; name one of {KINDS}")
    reader = READERS.get(path.suffix.lower())
    if path.suffix.lower() == ".bin":
        reader = _word2vec if is_word2vec(path) else _state_dict
    if reader is None:
        raise DataError(f"{path}: its ending says nothing about vectors; known are {KINDS}")
    try:
        return reader(path, ids, key)
    except (OSError, ValueError, KeyError, RuntimeError, EOFError) as error:
        raise DataError(f"{path} cannot be read as vectors: {error}") from error


def _npy(path: Path, ids: Any, key: str | None) -> VectorTable:
    return table_of(np.load(path, mmap_mode="r", allow_pickle=False), ids, name=str(path))


def _npz(path: Path, ids: Any, key: str | None) -> VectorTable:
    with np.load(path, allow_pickle=False) as content:
        shapes = {name: content[name].shape for name in content.files if name != "model_class"}
        return table_of(content[_chosen(shapes, key, path)], ids, name=str(path))


def _safetensors(path: Path, ids: Any, key: str | None) -> VectorTable:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= LONGEST_HEADER:
            raise ValueError("its header has no possible length")
        header = json.loads(file.read(length))
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    name = _chosen({name: tuple(entry["shape"]) for name, entry in entries.items()}, key, path)
    entry = entries[name]
    if entry["dtype"] not in SAFETENSORS:
        raise ValueError(f"{name} holds {entry['dtype']}, which are no numbers for vectors")
    begin = 8 + length + int(entry["data_offsets"][0])
    values = np.memmap(
        path, SAFETENSORS[entry["dtype"]], mode="r", offset=begin, shape=tuple(entry["shape"])
    )
    return table_of(values, ids, name=name, widen=_of_bfloat if entry["dtype"] == "BF16" else None)


def _of_bfloat(stored: npt.NDArray[Any]) -> Float32Array:
    """bfloat16 is the upper half of float32."""
    return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _state_dict(path: Path, ids: Any, key: str | None) -> VectorTable:
    try:
        import torch
    except ImportError:
        raise MissingExtra("Reading a PyTorch file", "torch", "train") from None
    try:
        # One from before PyTorch 1.6 is no archive, and cannot be mapped.
        is_mapped = zipfile.is_zipfile(path)
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=is_mapped)
    except Exception as error:  # whatever unpickling refuses: nothing is run
        raise DataError(
            f"{path} is no plain state dict ({type(error).__name__}); save one with "
            "torch.save(model.state_dict(), path)"
        ) from error
    if isinstance(state, torch.Tensor):
        state = {"tensor": state}
    if not isinstance(state, Mapping):
        raise DataError(f"{path} holds a {type(state).__name__}, not a state dict")
    tensors = {str(name): one for name, one in state.items() if isinstance(one, torch.Tensor)}
    name = _chosen({name: tuple(one.shape) for name, one in tensors.items()}, key, path)
    tensor = tensors[name].detach()
    if tensor.dtype == torch.bfloat16:
        return table_of(tensor.view(torch.uint16).numpy(), ids, name=name, widen=_of_bfloat)
    return table_of(tensor.numpy(), ids, name=name)


def _arrow(path: Path, ids: Any, key: str | None) -> VectorTable:
    try:
        import pyarrow
        import pyarrow.feather
        import pyarrow.parquet
    except ImportError:
        raise DataError(
            f"{path}: vectors in Parquet or Arrow are read by pyarrow; pip install pyarrow"
        ) from None
    is_parquet = path.suffix.lower() in (".parquet", ".pq")
    read = pyarrow.parquet.read_table if is_parquet else pyarrow.feather.read_table
    table = read(path)
    lists = [
        field.name
        for field in table.schema
        if any(
            test(field.type)
            for test in (
                pyarrow.types.is_list,
                pyarrow.types.is_large_list,
                pyarrow.types.is_fixed_size_list,
            )
        )
    ]
    name = _one_of(lists, key, path, "column of lists")
    column = table[name].combine_chunks()
    if column.null_count:
        raise DataError(f"{path}: {column.null_count:,} rows have no vector in {name!r}")
    flat = column.flatten().to_numpy(zero_copy_only=False)
    if len(flat) % max(len(column), 1) or len(set(_lengths(column))) != 1:
        raise DataError(f"{path}: the vectors in {name!r} have different lengths")
    if isinstance(ids, str):
        if ids not in table.column_names:
            raise DataError(f"{path} has no column {ids!r}; it has {', '.join(table.column_names)}")
        ids = table[ids].to_pylist()
    return table_of(flat.reshape(len(column), -1), ids, name=name)


def _lengths(column: Any) -> list[int]:
    import pyarrow.compute

    found: list[int] = pyarrow.compute.list_value_length(column).to_pylist()
    return found


def _word2vec(path: Path, ids: Any, key: str | None) -> VectorTable:
    values, words = read_word2vec(path)
    return table_of(values, words if ids is None else ids, name=str(path))


def _chosen(shapes: Mapping[str, tuple[int, ...]], key: str | None, path: Path) -> str:
    """The array that is asked for, or the only one of two dimensions."""
    tables = [name for name, shape in shapes.items() if len(shape) == 2]
    return _one_of(tables, key, path, "table")


def _one_of(names: list[str], key: str | None, path: Path, what: str) -> str:
    listed = ", ".join(sorted(names)) or "none"
    if key is not None:
        if key not in names:
            raise DataError(f"{path} has no {what} {key!r}; it has {listed}")
        return key
    if len(names) != 1:
        raise DataError(f"{path} has {len(names)} of them; say by key which {what}: {listed}")
    return names[0]


Reader = Callable[[Path, Any, str | None], VectorTable]
READERS: dict[str, Reader] = {
    ".npy": _npy,
    ".npz": _npz,
    ".safetensors": _safetensors,
    ".pt": _state_dict,
    ".pth": _state_dict,
    ".parquet": _arrow,
    ".pq": _arrow,
    ".arrow": _arrow,
    ".feather": _arrow,
    ".txt": _word2vec,
    ".vec": _word2vec,
}
