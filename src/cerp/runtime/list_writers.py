"""Lists as a table: a row for every place, with user, item, rank, score and, where known, title.

Text (CSV, TSV, JSON lines, each also with ``.gz``) is written as the lists come. Parquet is
made by DuckDB, which meanwhile keeps them in a file beside it: memory does not grow with the lists.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol

import numpy as np
import numpy.typing as npt

from cerp.data.formats.duckdb_memory import Database
from cerp.data.ids import Id
from cerp.errors import ConfigError
from cerp.files import refuse_unwritable, replacing, scratch_beside
from cerp.runtime.batch import Rows
from cerp.runtime.recommending import Runtime

HEADER = ("user", "item", "rank", "score")
TITLE = "title"
DELIMITERS = {".csv": ",", ".tsv": "\t"}
JSON_LINES = (".jsonl", ".ndjson")
PARQUET = (".parquet", ".pq")
COMPRESSION = 4
"""Of gzip: nearly as small as its default, in half the time."""


class Writer(Protocol):
    """What takes lists, block by block."""

    def write(self, rows: Rows) -> None:
        """Put the rows after those that are there."""


def refuse_table(path: Path) -> None:
    """Refuse a name that no table of lists can have, before any list is made."""
    if _kind(path) not in (*DELIMITERS, *JSON_LINES, *PARQUET):
        raise ConfigError(
            f"{path}: tables of lists are .csv, .tsv or .jsonl files, each also with .gz, or "
            ".parquet files"
        )
    refuse_unwritable(path)


@contextmanager
def table_writer(path: Path, users: Sequence[Id], runtime: Runtime) -> Iterator[Writer]:
    """A writer whose file appears when all is written; rows name users by position in ``users``."""
    refuse_table(path)
    names = _Names(users, runtime)
    with replacing(path) as scratch:
        if _kind(path) in PARQUET:
            with (
                scratch_beside(path, is_folder=True) as folder,
                _ParquetWriter(folder / "lists.duckdb", names) as parquet,
            ):
                yield parquet
                parquet.finish(scratch)
            return
        with _opened(scratch, is_compressed=path.suffix == ".gz") as file:
            if _kind(path) in JSON_LINES:
                yield _JsonWriter(file, names)
            else:
                yield _DelimitedWriter(file, DELIMITERS[_kind(path)], names)


class _Names:
    """What positions of users and codes of items are called."""

    def __init__(self, users: Sequence[Id], runtime: Runtime) -> None:
        self.users = users
        self.items = runtime.items.values.tolist()
        self.titles = runtime.titles

    @property
    def header(self) -> tuple[str, ...]:
        return HEADER if self.titles is None else (*HEADER, TITLE)

    def rows(self, rows: Rows) -> Iterator[tuple[Id | int | float | str, ...]]:
        """The rows as they are read."""
        items = rows.items.tolist()
        columns: list[list[Id] | list[int] | list[float] | list[str]] = [
            [self.users[position] for position in rows.users.tolist()],
            [self.items[code] for code in items],
            rows.ranks.tolist(),
            [float(str(score)) for score in rows.scores],
        ]
        if self.titles is not None:
            columns.append([self.titles[code] for code in items])
        return zip(*columns, strict=True)


class _DelimitedWriter:
    """A block at a time: the cells of items are text already, and joined once."""

    def __init__(self, file: IO[str], delimiter: str, names: _Names) -> None:
        self.file, self.delimiter, self.users = file, delimiter, names.users
        # A line ends with its title, where there are such.
        self.items = self._cells(names.items, before="", after=delimiter)
        self.ends = (
            None
            if names.titles is None
            else self._cells(names.titles, before=delimiter, after="\n")
        )
        file.write(delimiter.join(names.header) + "\n")

    def write(self, rows: Rows) -> None:
        if not len(rows.users):
            return
        parts = [""] * (5 * len(rows.users))
        users, lengths = np.unique(rows.users, return_counts=True)
        named = self._cells([self.users[user] for user in users.tolist()], "", self.delimiter)
        ranks = self._cells(range(int(rows.ranks.max()) + 1), "", self.delimiter)
        parts[0::5] = np.repeat(named, lengths).tolist()
        parts[1::5] = self.items[rows.items].tolist()
        parts[2::5] = ranks[rows.ranks].tolist()
        parts[3::5] = map(str, rows.scores)  # no more digits than float32 has
        ends = ["\n"] * len(rows.users) if self.ends is None else self.ends[rows.items].tolist()
        parts[4::5] = ends
        self.file.write("".join(parts))

    def _cells(self, values: Sequence[Id], before: str, after: str) -> npt.NDArray[np.object_]:
        """Values as text, in quotes where a reader would else take them apart."""
        special = (self.delimiter, '"', "\n", "\r")
        cells = np.empty(len(values), dtype=object)
        for place, value in enumerate(map(str, values)):
            is_special = any(sign in value for sign in special)
            text = '"' + value.replace('"', '""') + '"' if is_special else value
            cells[place] = f"{before}{text}{after}"
        return cells


class _JsonWriter:
    def __init__(self, file: IO[str], names: _Names) -> None:
        self.file, self.names = file, names

    def write(self, rows: Rows) -> None:
        header = self.names.header
        self.file.writelines(
            json.dumps(dict(zip(header, row, strict=True)), ensure_ascii=False) + "\n"
            for row in self.names.rows(rows)
        )


class _ParquetWriter:
    """Codes go to a database in a file; ids and titles join them in the end."""

    def __init__(self, path: Path, names: _Names) -> None:
        self.database = Database()
        self.names = names
        place = str(path).replace("'", "''")
        self.database.rows(f"attach '{place}' as kept")
        self.database.rows(
            "create table kept.lists (user_position int, item_code int, rank int, score float)"
        )
        self._name("users", names.users)
        self._name("items", names.items)
        if names.titles is not None:
            self._name("titles", names.titles)

    def _name(self, table: str, values: Sequence[Id]) -> None:
        are_integers = all(isinstance(value, int) for value in values)
        array = np.empty(len(values), dtype=np.int64 if are_integers else object)
        array[:] = values if are_integers else [str(value) for value in values]
        given = {"place": np.arange(len(values), dtype=np.int32), "name": array}
        self.database.register("given", given)
        kind = "bigint" if are_integers else "varchar"
        self.database.rows(
            f"create temp table {table} as select place, name::{kind} as name from given"
        )

    def write(self, rows: Rows) -> None:
        given = {
            "a": rows.users.astype(np.int32),
            "b": rows.items,
            "c": rows.ranks.astype(np.int32),
            "d": rows.scores,
        }
        self.database.register("given", given)
        self.database.rows("insert into kept.lists select a, b, c, d from given")

    def finish(self, path: Path) -> None:
        """Write the table."""
        title = ", titles.name as title" if self.names.titles is not None else ""
        joined = "join titles on titles.place = item_code" if self.names.titles is not None else ""
        target = str(path).replace("'", "''")
        self.database.rows(
            f'copy (select users.name as "user", items.name as item, rank, score{title} '
            "from kept.lists join users on users.place = user_position "
            f"join items on items.place = item_code {joined} order by user_position, rank) "
            # The target is a scratch file already.
            f"to '{target}' (format parquet, use_tmp_file false)"
        )

    def __enter__(self) -> _ParquetWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.database.__exit__()


@contextmanager
def _opened(path: Path, *, is_compressed: bool) -> Iterator[IO[str]]:
    if not is_compressed:
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file
        return
    # No name and no time in the header: equal lists are equal files.
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", COMPRESSION, raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="") as file,
    ):
        yield file


def _kind(path: Path) -> str:
    return path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
