"""`read`: interactions from a file, folder or table, whatever its format."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from cerp.data.formats import lightgcn_text, text_files
from cerp.data.formats.columns import ITEM_NAMES, USER_NAMES, Column, Wanted, is_recognised
from cerp.data.formats.delimited import DelimitedFile
from cerp.data.formats.frames import read_frame
from cerp.data.formats.json_lines import read_json_lines
from cerp.data.formats.parquet import read_parquet
from cerp.data.formats.sniffing import DELIMITERS, Layout, fit, sniff
from cerp.data.formats.titles import read_titles, titles_of
from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError, DataError

__all__ = ["Format", "read", "read_titles"]

Format = Literal["csv", "recbole", "lightgcn", "jsonl", "parquet"]
"""``csv`` is any delimited text."""

SUFFIXES: dict[str, Format] = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".psv", ".dat", ".data"), "csv"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    ".inter": "recbole",
}
"""``.txt`` is decided by its content."""

MOVIELENS_DATA, MOVIELENS_TITLES = "u.data", "u.item"
FRAME_LIBRARIES = ("pandas", "polars", "pyarrow")


def read(
    source: Any,
    *,
    user: Column | None = None,
    item: Column | None = None,
    rating: Column | None = None,
    time: Column | Literal[False] | None = None,
    min_rating: float | None = None,
    k_core: int | None = None,
    format: Format | None = None,  # noqa: A002 - the word everyone looks for
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
    ids: Literal["string"] | None = None,
    titles: str | os.PathLike[str] | None = None,
) -> Interactions:
    """Interactions from a file, a folder, a data frame or a sparse matrix.

    Files: delimited text (CSV, TSV, ``::`` and others), RecBole ``.inter``, LightGCN
    text, JSON lines, all of them also with ``.gz``, and Parquet. A folder holds parts
    of one Parquet table, or MovieLens-100K. Data frames: pandas, polars, pyarrow.

    Args:
        source: A path or a table.
        user: The column of user ids, by name, or by position from 0 where there are
            no names. Like the three after it, found by itself where it can be.
        item: The column of item ids.
        rating: The column that ``min_rating`` looks at.
        time: The column of times; False reads without times.
        min_rating: Keep only rows with at least this rating.
        k_core: Keep only users and items with at least this many interactions each.
        format: The format of a file whose name does not tell it.
        delimiter: What separates the columns of delimited text.
        header: Whether line 1 of delimited text names the columns.
        encoding: Of text files.
        ids: ``"string"`` keeps ids as text. Otherwise they are integers where the
            source says so, or in text where every id of the column is a plain
            non-negative integer (``007`` is not one). Blanks around a field of
            delimited text are no part of it, quoted or not.
        titles: A file of item titles, see `read_titles`.

    """
    wanted = Wanted(user, item, rating, time, min_rating, ids)
    options = _FileOptions(format, delimiter, header, encoding)
    name = f"the {type(source).__name__}"
    if hasattr(source, "tocoo"):
        _refuse(wanted.given() | options.given(), "a sparse matrix")
        data = Interactions.from_sparse(source)
    elif _is_frame(source):
        _refuse(options.given(), "a data frame")
        data = read_frame(source, wanted)
    elif isinstance(source, str | os.PathLike):
        path = Path(source)
        name = str(path)
        data = _read_path(path, wanted, options)
        if titles is None and (path / MOVIELENS_TITLES).is_file():
            titles = path / MOVIELENS_TITLES
    else:
        raise DataError(
            f"cannot read a {type(source).__name__}; give a path, a pandas, polars or pyarrow "
            "table, or a SciPy sparse matrix"
        )
    try:
        data = (data if k_core is None else data.k_core(k_core)).usable()
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    return data if titles is None else replace(data, titles=titles_of(data.items, titles))


def _is_frame(source: Any) -> bool:
    """Whether this is a table of a known library; told without importing any."""
    library = type(source).__module__.partition(".")[0]
    return library in FRAME_LIBRARIES and hasattr(source, "shape") and hasattr(source, "columns")


@dataclass(frozen=True)
class _FileOptions:
    format: Format | None
    delimiter: str | None
    header: bool | None
    encoding: str

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in get_args(Format):
            known = ", ".join(get_args(Format))
            raise ConfigError(f"unknown format {self.format!r}; choose one of {known}")
        if self.delimiter is not None and self.delimiter not in DELIMITERS:
            known = ", ".join(map(repr, DELIMITERS))
            raise ConfigError(f"unknown delimiter {self.delimiter!r}; choose one of {known}")

    def given(self) -> set[str]:
        return {name for name in ("format", "delimiter", "header") if vars(self)[name] is not None}


def _refuse(given: set[str], what: str) -> None:
    if given:
        raise ConfigError(f"{', '.join(sorted(given))} cannot be used with {what}")


def _read_path(path: Path, wanted: Wanted, options: _FileOptions) -> Interactions:
    try:
        if path.is_dir():
            return _read_folder(path, wanted, options)
        if path.is_file():
            return _read_file(path, wanted, options)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    raise DataError(f"{path}: no such file or folder")


def _read_file(path: Path, wanted: Wanted, options: _FileOptions) -> Interactions:
    chosen = options.format or _format_of_name(path)
    if chosen == "parquet":
        _refuse(options.given() - {"format"}, "Parquet")
        return read_parquet([path], path, wanted)
    with text_files.plain_text(path, options.encoding) as plain:
        head = text_files.head(plain, path)
        if chosen is None:
            chosen = _format_of_text(head, path) if options.delimiter is None else "csv"
        if chosen == "lightgcn":
            _refuse(wanted.given() - {"ids"} | options.given() - {"format"}, "the LightGCN format")
            return _read_lightgcn(plain, path, wanted)
        if chosen == "jsonl":
            _refuse(options.given() - {"format"}, "JSON lines")
            return read_json_lines(plain, path, wanted)
        is_whole = plain.stat().st_size <= text_files.HEAD_BYTES
        is_recbole = chosen == "recbole"
        layout = _layout(head, path, wanted, options, is_recbole=is_recbole, is_whole=is_whole)
        return DelimitedFile(plain, path, layout).read(wanted)


def _read_folder(folder: Path, wanted: Wanted, options: _FileOptions) -> Interactions:
    if (folder / MOVIELENS_DATA).is_file():
        return _read_path(folder / MOVIELENS_DATA, wanted, options)
    if (folder / "train.txt").is_file() and (folder / "test.txt").is_file():
        raise DataError(
            f"{folder}: holds train.txt and test.txt, a split that is made already; "
            "load it with Splits.load"
        )
    parts = sorted(
        file
        for file in folder.iterdir()
        if SUFFIXES.get(file.suffix.lower()) == "parquet" and file.name[0] not in "._"
    )
    if not parts:
        raise DataError(
            f"{folder}: nothing in this folder is usable as a whole (no Parquet parts, no "
            f"{MOVIELENS_DATA}); name the file to read"
        )
    _refuse(options.given() - {"format"}, "Parquet")
    return read_parquet(parts, folder, wanted)


def _format_of_name(path: Path) -> Format | None:
    """The format that a suffix stands for; None for ``.txt``."""
    suffix = Path(path.stem if text_files.is_compressed(path) else path).suffix.lower()
    if suffix == ".txt":
        return None
    if suffix not in SUFFIXES:
        raise DataError(
            f"{path}: the suffix {suffix!r} says nothing about the format; "
            f"say it with format=: one of {', '.join(get_args(Format))}"
        )
    return SUFFIXES[suffix]


def _format_of_text(head: str, path: Path) -> Format:
    """Delimited or LightGCN, from the first lines of a ``.txt`` file."""
    if any(fit(head, delimiter) == 1.0 for delimiter in DELIMITERS if delimiter != " "):
        return "csv"
    rows = [line.split() for line in head.splitlines() if line.strip()]
    widths = {len(row) for row in rows}
    if rows and any(is_recognised(name, (*USER_NAMES, *ITEM_NAMES)) for name in rows[0]):
        return "csv"
    if widths in ({3}, {4}):
        raise DataError(
            f"{path}: every line has {widths.pop()} columns: either 'user item rating' or "
            'LightGCN\'s \'user item item\'; say which with format="csv" or "lightgcn"'
        )
    # With two columns both formats mean the same; with one, the error names it.
    return "csv" if widths <= {1} or widths == {2} else "lightgcn"


def _layout(
    head: str,
    path: Path,
    wanted: Wanted,
    options: _FileOptions,
    *,
    is_recbole: bool,
    is_whole: bool,
) -> Layout:
    if not is_recbole:
        return sniff(
            head,
            str(path),
            delimiter=options.delimiter,
            header=options.header,
            asked=(wanted.user, wanted.item, wanted.rating, wanted.time),
            is_whole=is_whole,
        )
    layout = sniff(
        head, str(path), delimiter=options.delimiter or "\t", header=True, is_whole=is_whole
    )
    names = tuple(str(name).partition(":")[0] for name in layout.columns)
    return replace(layout, columns=names)


def _read_lightgcn(plain: Path, path: Path, wanted: Wanted) -> Interactions:
    try:
        parsed = lightgcn_text.parse([plain])[0]
    except DataError as error:
        raise DataError(str(error).replace(str(plain), str(path))) from None
    user, item, lines = (
        column.astype(str).astype(object) if wanted.ids == "string" else column for column in parsed
    )
    users, codes = Ids.in_native_order(np.concatenate([lines, user]))
    items, item_codes = Ids.in_native_order(item)
    return Interactions.from_codes(codes[len(lines) :], item_codes, users=users, items=items)
