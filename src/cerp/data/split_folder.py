"""The files of a split's folder: parts as arrays of codes, or as LightGCN text; ids and titles.

``train.npy``, ``valid.npy`` and ``test.npy`` hold the pairs of codes, sorted, as little-endian
int32 of shape (n, 2): an interaction takes eight bytes. All users come first, then all items
(Fortran's order), so that both columns of a long file stay on disk and are mapped: processes that
load one folder share its pages. The SHA-256 of the pairs, row by row, is the part's fingerprint.
Arrays that hold row after row, which earlier versions wrote, and folders of text are read too,
into memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from cerp.data.formats import lightgcn_text
from cerp.data.ids import Id, Ids
from cerp.data.interactions import Interactions
from cerp.data.sorting import STRETCH
from cerp.errors import DataError

META, TITLES, WEIGHTS = "meta.json", "titles.json", "weights.safetensors"
FORMS = (".npy", ".txt")
"""How a part may be written; the first is how `write_part` does."""
MAKE_AGAIN = (
    "Put the files back as they were, or make the folder again with Splits.save or datasets.fetch"
)


Name = TypeVar("Name", bound=str)


def form_of(folder: Path) -> str | None:
    """In which of `FORMS` a folder has its train and test parts; None: it is no split."""
    for form in FORMS:
        if all((folder / f"{name}{form}").is_file() for name in ("train", "test")):
            return form
    return None


def write_part(path: Path, part: Interactions) -> None:
    """Write the users of a part, and then its items, a stretch at a time."""
    header = {"descr": "<i4", "fortran_order": True, "shape": (len(part), 2)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for column in (part.user, part.item):
            for start in range(0, len(column), STRETCH):
                file.write(column[start : start + STRETCH].astype("<i4").data)


def read_part(path: Path, users: Ids, items: Ids, digest: str | None) -> Interactions:
    """The part in a file, which must hold what the fingerprint ``digest`` stands for.

    The columns of a long file are mapped: it may be replaced by another, as `Splits.save` does,
    but not written over while it is in use.
    """
    pairs = _mapped(path)
    if digest is not None and (found := _sha256(pairs)) != digest:
        raise DataError(
            f"{path}: the fingerprint is {found}, {META} says {digest}; the file was changed after "
            f"it was written. {MAKE_AGAIN}"
        )
    # A column that lies in one piece is not copied.
    user, item = (np.ascontiguousarray(pairs[:, side], dtype=np.int32) for side in (0, 1))
    for codes, ids in ((user, users), (item, items)):
        if codes.size and not (codes.min() >= 0 and codes.max() < len(ids)):
            raise DataError(f"{path} does not fit the other files of this split. {MAKE_AGAIN}")
    return Interactions.from_sorted(user, item, users=users, items=items)


def write_weights(path: Path, parts: Mapping[Name, Interactions]) -> None:
    """Write the weights of all parts, in the order of their rows."""
    save_file({name: np.array(part.weight) for name, part in parts.items()}, path)


def with_weights(parts: Mapping[Name, Interactions], path: Path) -> dict[Name, Interactions]:
    """The parts of a saved split with the weights that it keeps."""
    try:
        weights = load_file(path)
        return {
            name: Interactions.from_codes(
                part.user, part.item, users=part.users, items=part.items, weight=weights[name]
            )
            for name, part in parts.items()
        }
    except (SafetensorError, KeyError, DataError, OSError) as error:
        raise DataError(
            f"{path} must hold a positive weight for each interaction of this split ({error}); was "
            f"it edited? {MAKE_AGAIN}"
        ) from None


def _mapped(path: Path) -> npt.NDArray[np.int32]:
    try:
        pairs = np.load(path, mmap_mode="r" if path.stat().st_size > STRETCH else None)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"{path}: no array of pairs ({error}). {MAKE_AGAIN}") from None
    if pairs.dtype != np.dtype("<i4") or pairs.ndim != 2 or pairs.shape[1] != 2:
        raise DataError(
            f"{path}: an array of {pairs.dtype} in the shape {pairs.shape}, where pairs of int32 "
            f"codes were expected. {MAKE_AGAIN}"
        )
    return pairs  # type: ignore[no-any-return]


def _sha256(pairs: npt.NDArray[np.int32]) -> str:
    digest = hashlib.sha256()
    for start in range(0, len(pairs), STRETCH):
        digest.update(np.ascontiguousarray(pairs[start : start + STRETCH]).data)
    return digest.hexdigest()


def read_text_parts(root: Path, meta: dict[str, Any], names: list[Any]) -> dict[str, Interactions]:
    """The parts of a folder of LightGCN text, each numbered by itself or by stored ids."""
    paths = [root / f"{name}.txt" for name in names]
    empty = [path for path in paths if meta.get(path.stem) == 0]
    parsed = dict(zip(names, lightgcn_text.parse(paths, may_be_empty=empty), strict=True))
    users, items = (stored_ids(root, side, meta.get(side)) for side in ("users", "items"))
    parts = {}
    for name, (user, item, lines) in parsed.items():
        parts[name] = _coded(user, item, lines, users, items, root / f"{name}.txt")
    return parts


def _coded(
    user: npt.NDArray[Any],
    item: npt.NDArray[Any],
    lines: npt.NDArray[Any],
    users: Ids | None,
    items: Ids | None,
    path: Path,
) -> Interactions:
    """A parsed file as interactions; with stored ids the file holds their codes."""
    if users is not None and items is not None:
        try:
            return Interactions.from_codes(user, item, users=users, items=items)
        except DataError:
            raise _misfit_error(path, users, items) from None
    users, codes = Ids.in_native_order(np.concatenate([lines, user]))
    items, item_codes = Ids.in_native_order(item)
    return Interactions.from_codes(codes[len(lines) :], item_codes, users=users, items=items)


def _misfit_error(path: Path, users: Ids, items: Ids) -> DataError:
    """The error for a saved part that holds a code which none of the stored ids has."""
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        for place, token in enumerate(line.split()):
            side, ids = ("item", items) if place else ("user", users)
            if not (token.isdecimal() and token == str(int(token)) and int(token) < len(ids)):
                return DataError(
                    f"{path}, line {number}: {side} {token!r} is not among the {side}s 0 to "
                    f"{len(ids) - 1} of this split; was the file edited? {MAKE_AGAIN}"
                )
    return DataError(f"{path} does not fit the other files of this split. {MAKE_AGAIN}")


def stored_ids(root: Path, side: str, count: int | None) -> Ids | None:
    """The ids that a saved split keeps; None when the files hold original ids."""
    path = root / f"{side}.json"
    if path.is_file():
        values: list[Id] = read_json(path)
        return Ids(values)
    return Ids.range(count) if count is not None else None


def stored_titles(root: Path, items: Ids) -> dict[Id, str]:
    """What a saved split calls its items: by code, null for an item without a title."""
    path = root / TITLES
    if not path.is_file():
        return {}
    titles = read_json(path)
    is_list = isinstance(titles, list) and all(isinstance(one, str | None) for one in titles)
    if not is_list or len(titles) != len(items):
        raise DataError(
            f"{path} must hold a title or null for each of the {len(items):,} items of this "
            f"split; was it edited? {MAKE_AGAIN}"
        )
    found = zip(items.values.tolist(), titles, strict=True)
    return {item: title for item, title in found if title is not None}


def write_json(path: Path, values: list[Any]) -> None:
    """A list in one line."""
    path.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")


def read_json(path: Path) -> Any:
    """What a file of the folder says."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path}: not valid JSON ({error})") from None
