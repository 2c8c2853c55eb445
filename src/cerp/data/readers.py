"""`read`: interactions from a file, folder or table, whatever its format."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cerp.data.formats import text_files
from cerp.data.formats.base import FORMATS, SourceFile
from cerp.data.formats.columns import Column, Wanted
from cerp.data.formats.duckdb_memory import Database, ScanError
from cerp.data.formats.frames import read_frame
from cerp.data.formats.parquet import parts_in, read_parts
from cerp.data.formats.recognising import format_of_name, format_of_text
from cerp.data.formats.sniffing import DELIMITERS
from cerp.data.formats.titles import read_titles, titles_of
from cerp.data.formats.typed_tables import read_typed
from cerp.data.interactions import Interactions
from cerp.data.source_facts import odd_ids
from cerp.data.split_folder import form_of
from cerp.errors import ConfigError, DataError

__all__ = ["read", "read_titles"]

MOVIELENS_DATA, MOVIELENS_TITLES = "u.data", "u.item"
FRAME_LIBRARIES = ("pandas", "polars", "pyarrow")


def read(
    source: Any,
    *,
    user: Column | None = None,
    item: Column | None = None,
    rating: Column | None = None,
    time: Column | Literal[False] | None = None,
    weight: Column | None = None,
    min_rating: float | None = None,
    k_core: int | None = None,
    format: str | None = None,  # noqa: A002 - the word everyone looks for
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
    ids: Literal["string"] | None = None,
    where: str | None = None,
    time_format: str | None = None,
    decimal: Literal[","] | None = None,
    sql: str | None = None,
    titles: str | os.PathLike[str] | None = None,
) -> Interactions:
    """Interactions from a file, a folder, a data frame or a sparse matrix.

    Files: delimited text (CSV, TSV, ``::`` and others), RecBole ``.inter``, LightGCN
    text, JSON lines, all of them also with ``.gz`` and ``.zip``, Parquet, and DuckDB databases.
    A folder holds parts of one Parquet table, perhaps partitioned as Hive does (``day=1/``), or
    MovieLens-100K. Data frames: pandas, polars, pyarrow, and whatever else gives Arrow streams
    (``__arrow_c_stream__``), such as DuckDB's relations. Cursors of ADBC, which reach PostgreSQL
    and other databases, after they have executed a query.

    Parameters
    ----------
    source
        A path, a table, or a cursor that has executed a query.
    user
        The column of user ids, by name, or by position from 0. Like the three after it, found
        by itself where it can be.
    item
        The column of item ids.
    rating
        The column that ``min_rating`` looks at.
    time
        The column of times; False reads without times.
    weight
        The column that says how much a row counts in training, in positive numbers; those of a
        repeated pair are added up. See `Interactions.weight`. Left out, all pairs count alike.
    min_rating
        Keep only rows with at least this rating.
    k_core
        Keep only users and items with at least this many interactions each.
    format
        The format of a file whose name does not tell it: ``csv`` (any delimited text),
        ``recbole``, ``lightgcn``, ``jsonl``, ``parquet``, ``duckdb``, or one that another package
        adds (see `cerp.data.formats.base`).
    delimiter
        What separates the columns of delimited text.
    header
        Whether line 1 of delimited text names the columns.
    encoding
        Of text files.
    ids
        ``"string"`` keeps ids as text. Otherwise they are integers where the source says so, or
        in text where every id of the column is a plain non-negative integer (``007`` is not
        one). Blanks around a field of delimited text are no part of it, quoted or not.
    where
        Which rows to keep: a condition in SQL over the columns, such as
        ``"event = 'purchase'"``. Where columns have no names, they are ``column0`` and so on.
    time_format
        How times are written, where they are neither numbers nor ISO 8601: ``"%d.%m.%Y"``.
    decimal
        ``","`` where delimited text writes ratings as ``3,5``.
    sql
        What to read of a DuckDB database: ``"select customer, sku from sales"``.
    titles
        A file of item titles, see `read_titles`.

    Returns
    -------
    Interactions
        Distinct pairs of users and items, in which at least two of each take part.

    Raises
    ------
    DataError
        What is wrong with the data, with the line or row where it can be named.
    ConfigError
        An option that is unknown, or that this source has no use for.

    Examples
    --------
    >>> frame = pandas.DataFrame({"user": ["ann", "ann", "bo"], "item": [1, 2, 2]})
    >>> cerp.read(frame)
    Interactions: 3 of 2 users and 2 items
      1.5 per user, 1.5 per item, 75.00% of all pairs

    """
    wanted = Wanted(user, item, rating, time, min_rating, ids, where, time_format, decimal, weight)
    options = _FileOptions(format, delimiter, header, encoding, sql)
    name = f"the {type(source).__name__}"
    if hasattr(source, "tocoo"):
        _refuse(wanted.given() | options.given(), "a sparse matrix")
        data = Interactions.from_sparse(source)
    elif _is_frame(source):
        _refuse(options.given() | ({"decimal"} & wanted.given()), "a data frame")
        data = read_frame(source, wanted)
    elif hasattr(source, "fetch_arrow"):
        _refuse(options.given() | ({"decimal"} & wanted.given()), "a cursor")
        data = _read_stream(_fetched(source), wanted, name)
    elif hasattr(source, "__arrow_c_stream__"):
        _refuse(options.given() | ({"decimal"} & wanted.given()), "an Arrow stream")
        data = _read_stream(source, wanted, name)
    elif isinstance(source, str | os.PathLike):
        path = Path(source)
        name = str(path)
        data = _read_path(path, wanted, options)
        if titles is None and (path / MOVIELENS_TITLES).is_file():
            titles = path / MOVIELENS_TITLES
    else:
        raise DataError(
            f"cannot read a {type(source).__name__}; give a path, a pandas, polars or pyarrow "
            "table, an Arrow stream, or a SciPy sparse matrix"
        )
    try:
        data = (data if k_core is None else data.k_core(k_core)).usable()
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    data = _warned(data)
    return data if titles is None else replace(data, titles=titles_of(data.items, titles))


def read_later(
    path: str | os.PathLike[str],
    *,
    user: Column | None = None,
    item: Column | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    ids: Literal["string"] | None = None,
    where: str | None = None,
) -> Interactions:
    """Rows for a model that is there: as `read`, without times; a single user or item will do."""
    wanted = Wanted(user=user, item=item, time=False, ids=ids, where=where)
    data = _read_path(Path(path), wanted, _FileOptions(None, delimiter, header, "utf-8"))
    if not len(data):
        raise DataError(f"{path}: no row is left; where= has left all of them out")
    return data


def _warned(data: Interactions) -> Interactions:
    """The same, with what is odd about its ids."""
    source = data.source
    if source is None:
        return data
    found = (
        odd_ids(side, ids.values, source.rows - source.left_out)
        for side, ids in (("user", data.users), ("item", data.items))
    )
    return replace(data, source=replace(source, warnings=(*source.warnings, *filter(None, found))))


@dataclass(frozen=True)
class _Stream:
    """An Arrow stream and nothing else: DuckDB has rules of its own for some of its givers."""

    __arrow_c_stream__: Callable[..., Any]


def _scannable(source: Any) -> Any:
    """What DuckDB can scan: it asks a giver of streams twice, and some have only one to give.

    pyarrow asks once. Who has such a giver, ADBC, has pyarrow too.
    """
    try:
        from pyarrow import RecordBatchReader
    except ImportError:
        return _Stream(source.__arrow_c_stream__)
    return RecordBatchReader.from_stream(source)


def _read_stream(source: Any, wanted: Wanted, name: str) -> Interactions:
    """Interactions of whatever gives Arrow streams; it is read once, into DuckDB."""
    try:
        with Database() as database:
            database.register("stream", _scannable(source))
            database.rows("create temp table given as select * from stream")
            return read_typed(database, "given", {}, name, wanted)
    except ScanError as error:
        raise DataError(f"{name}: not readable as an Arrow stream ({error})") from None


def _fetched(cursor: Any) -> Any:
    """The Arrow stream that a cursor's query gives."""
    try:
        return cursor.fetch_arrow()
    except Exception as error:  # each driver has errors of its own, under no common name
        raise DataError(
            f"the {type(cursor).__name__} has no rows to read ({error}); execute one query that "
            "selects users and items before it is read"
        ) from None


def _is_frame(source: Any) -> bool:
    """Whether this is a table of a known library; told without importing any."""
    library = type(source).__module__.partition(".")[0]
    return library in FRAME_LIBRARIES and hasattr(source, "shape") and hasattr(source, "columns")


@dataclass(frozen=True)
class _FileOptions:
    format: str | None
    delimiter: str | None
    header: bool | None
    encoding: str
    sql: str | None = None

    def __post_init__(self) -> None:
        if self.format is not None:
            _ = FORMATS[self.format]  # an error lists them all
        if self.delimiter is not None and self.delimiter not in DELIMITERS:
            known = ", ".join(map(repr, DELIMITERS))
            raise ConfigError(f"unknown delimiter {self.delimiter!r}; choose one of {known}")

    def given(self) -> set[str]:
        names = ("format", "delimiter", "header", "sql")
        return {name for name in names if vars(self)[name] is not None}


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
    chosen = options.format or format_of_name(path)
    if chosen is not None and not FORMATS[chosen].is_text:
        return _read_as(chosen, SourceFile(path, path, sql=options.sql), wanted, options)
    with text_files.plain_text(path, options.encoding) as plain:
        head = text_files.head(plain, path)
        text_files.refuse_nul(plain, path)
        if chosen is None:
            chosen = format_of_text(head, path) if options.delimiter is None else "csv"
        file = SourceFile(path, plain, head, options.delimiter, options.header)
        return _read_as(chosen, file, wanted, options)


def _read_as(name: str, file: SourceFile, wanted: Wanted, options: _FileOptions) -> Interactions:
    chosen = FORMATS[name]
    _refuse((wanted.given() | options.given()) - {"format"} - chosen.options, chosen.title)
    return chosen.read(file, wanted)


def _read_folder(folder: Path, wanted: Wanted, options: _FileOptions) -> Interactions:
    if (folder / MOVIELENS_DATA).is_file():
        return _read_path(folder / MOVIELENS_DATA, wanted, options)
    if (form := form_of(folder)) is not None:
        raise DataError(
            f"{folder}: holds train{form} and test{form}, a split that is made already; "
            "load it with Splits.load"
        )
    parts = parts_in(folder)
    if not parts:
        raise DataError(
            f"{folder}: nothing in this folder is usable as a whole (no Parquet parts, no "
            f"{MOVIELENS_DATA}); name the file to read"
        )
    _refuse(options.given() - {"format"}, FORMATS["parquet"].title)
    return read_parts(parts, folder, wanted)
