"""A second reader of .cerp files, written from docs/format.md alone, one number at a time.

Slow and trusting, but short enough to be checked against the page by eye.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np
from safetensors.numpy import load

Read = dict[str, Any]


def metadata_of(data: bytes) -> Read:
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return json.loads(header["__metadata__"]["cerp"])


def decode_plainly(data: bytes) -> Read:
    """Positions, seen pairs, ids, titles and the vectors of all entities by code."""
    meta, tensors = metadata_of(data), load(data)
    users, items = meta["users"], meta["items"]
    positions = list(range(users + items))
    if meta["order"] == "lehmer":
        positions = permutation(tensors["order"], users + items)
    found: Read = {
        "positions": positions,
        "users": ids(meta["ids"]["users"], tensors, "users.ids", users),
        "items": ids(meta["ids"]["items"], tensors, "items.ids", items),
        "titles": strings(tensors["titles"]) if meta["titles"] else None,
        "vectors": vectors(meta, tensors, positions),
    }
    if meta["seen"]:
        found["seen"] = seen(tensors, users, positions, meta["seen"]["edges"])
    return found


def bits(packed: np.ndarray) -> list[int]:
    return [packed[i // 8] >> i % 8 & 1 for i in range(8 * len(packed))]


def planes(packed: np.ndarray, widths: list[int]) -> list[int]:
    stream = iter(bits(packed))
    numbers = [0] * len(widths)
    for plane in range(max(widths, default=0)):
        for i, width in enumerate(widths):
            if width > plane:
                numbers[i] += int(next(stream)) << plane
    return numbers


def numbers(tensors: dict[str, np.ndarray], name: str) -> list[int]:
    classes = zlib.decompress(tensors[f"{name}.classes"].tobytes())
    extras = planes(tensors[f"{name}.extra"], [c // 4 for c in classes])
    return [
        (4 + c % 4) * 2 ** (c // 4) + extra - 4 for c, extra in zip(classes, extras, strict=True)
    ]


def strings(tensor: np.ndarray) -> list[str]:
    return json.loads(zlib.decompress(tensor.tobytes()))


def running(gaps: list[int]) -> list[int]:
    """x0, x1, ... of x0, x1-x0-1, ..."""
    values, last = [], -1
    for gap in gaps:
        last += gap + 1
        values.append(last)
    return values


def permutation(packed: np.ndarray, count: int) -> list[int]:
    ranks = planes(packed, [(count - i - 1).bit_length() for i in range(count)])
    free = list(range(count))
    return [free.pop(rank) for rank in ranks]


def ids(described: Read, tensors: dict[str, np.ndarray], name: str, count: int) -> list[Any]:
    if described["kind"] == "range":
        return list(range(count))
    if described["kind"] == "integers":
        return running(numbers(tensors, name))
    return strings(tensors[name])


def seen(
    tensors: dict[str, np.ndarray], users: int, positions: list[int], edges: int
) -> set[tuple[int, int]]:
    by_rank = sorted(range(users), key=lambda u: positions[u])
    item_by_rank = sorted(range(len(positions) - users), key=lambda i: positions[users + i])
    gaps = numbers(tensors, "seen.gaps")
    assert len(gaps) == edges
    pairs, begin = set(), 0
    for user, count in zip(by_rank, numbers(tensors, "seen.counts"), strict=True):
        row = running(gaps[begin : begin + count])
        pairs |= {(user, item_by_rank[rank]) for rank in row}
        begin += count
    return pairs


def table(
    tensors: dict[str, np.ndarray], name: str, codec: str, cells: list[int], rows: int, columns: int
) -> np.ndarray:
    stored = tensors[f"{name}.values"].tolist()
    if codec == "int4":
        halves = [half for byte in stored for half in (byte & 15, byte >> 4)]
        stored = [half - 16 if half > 7 else half for half in halves][: len(cells)]
    result = np.zeros((rows, columns), dtype=np.float32)
    for cell, value in zip(cells, stored, strict=True):
        row, column = divmod(cell, columns)
        scale = tensors[f"{name}.scales"][row] if codec.startswith("int") else 1
        result[row, column] = float(scale) * value
    return result


def stored_cells(described: Read, tensors: dict[str, np.ndarray], name: str) -> list[int]:
    rows, columns = described["rows"], described["columns"]
    if described["positions"] == "dense":
        return list(range(rows * columns))
    if described["positions"] == "prefix":
        lengths = numbers(tensors, f"{name}.positions.lengths")
        return [row * columns + c for row, length in enumerate(lengths) for c in range(length)]
    if described["positions"] == "bitmap":
        packed = zlib.decompress(tensors[f"{name}.positions.bitmap"].tobytes())
        return [i for i in range(rows * columns) if packed[i // 8] >> i % 8 & 1]
    return running(numbers(tensors, f"{name}.positions.gaps"))


def codes(index: Read, tensor: np.ndarray, entities: int) -> list[int]:
    if index["codes"] == "deflated":
        tensor = np.frombuffer(zlib.decompress(tensor.tobytes()), dtype=np.uint8)
    return planes(tensor, [(index["size"] - 1).bit_length()] * entities)


def rows_of(
    index: Read, tensors: dict[str, np.ndarray], name: str, positions: list[int]
) -> list[int]:
    if index["kind"] == "coded":
        chosen = codes(index, tensors[f"{name}.codes"], len(positions))
        return [chosen[k] for k in positions]
    return [row_of(index, k, len(positions)) for k in positions]


def row_of(index: Read, k: int, entities: int) -> int:
    size = index["size"]
    return {
        "identity": lambda: k,
        "modulo": lambda: k % size,
        "quotient": lambda: k // size,
        "scaled": lambda: k * size // entities,
        "hashed": lambda: (index["factor"] * k + index["offset"]) % (2**31 - 1) % size,
    }[index["kind"]]()


def vectors(meta: Read, tensors: dict[str, np.ndarray], positions: list[int]) -> np.ndarray:
    described = meta["embedding"]
    if "propagated" in described:
        columns = described["columns"]
        return np.concatenate([
            table(
                tensors, f"propagated.{side}", described["values"],
                list(range(meta[side] * columns)), meta[side], columns,
            )
            for side in ("users", "items")
        ])  # fmt: skip
    parts = []
    for number, own in enumerate(described["tables"]):
        name = f"embedding.{number}"
        cells = stored_cells(own, tensors, name)
        weight = table(tensors, name, own["values"], cells, own["rows"], own["columns"])
        parts.append(weight[rows_of(own["index"], tensors, name, positions)])
    if described["combine"] == "concat":
        return np.concatenate(parts, axis=1)
    fold = np.sum if described["combine"] == "sum" else np.prod
    return np.asarray(fold(parts, axis=0))
