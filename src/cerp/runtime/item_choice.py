"""Items by a file: those to choose from, those to leave out, and what category each is of."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cerp.data.formats.columns import ITEM_NAMES, is_recognised
from cerp.data.formats.duckdb_memory import Database, ScanError, exact, quoted
from cerp.data.ids import Id, Ids, Int32Array
from cerp.errors import ConfigError, DataError

PARQUET = (".parquet", ".pq")


class FoundItems(NamedTuple):
    """Items of a file that a model knows, and how many it does not know."""

    codes: Int32Array
    """Distinct, ascending."""
    unknown: int


def read_items(path: Path, items: Ids) -> FoundItems:
    """The items in a file: a column named like an item, else the first column, with no header."""
    try:
        found = set(_parquet_items(path) if path.suffix in PARQUET else _csv_items(path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    return _found([items.of_kind(one) for one in found], items)


class ItemAttributes:
    """A table of items with what is known of them, such as a category."""

    def __init__(self, path: Path, items: Ids) -> None:
        if not path.is_file():
            raise DataError(f"{path}: no such file")
        self.path, self.items = path, items

    def chosen(self, where: str) -> FoundItems:
        """The items for which a condition in SQL holds, such as ``category = 'shoes'``."""
        rows = self._rows(f"select {{item}} from {{table}} where ({where})", f"where={where!r}")
        return _found([self.items.of_kind(item) for (item,) in rows], self.items)

    def categories(self, column: str) -> Int32Array:
        """The category of every item of the model, as codes; -1 where the file says none."""
        name = quoted(column)
        rows = self._rows(
            f"select {{item}}, any_value({name})::varchar from {{table}} "
            f"where {name} is not null group by 1",
            f"category={column!r}",
        )
        named = {self.items.of_kind(item): category for item, category in rows}
        place = {category: code for code, category in enumerate(sorted(set(named.values())))}
        found = (place.get(named.get(item, ""), -1) for item in self.items.values.tolist())
        return np.fromiter(found, dtype=np.int32, count=len(self.items))

    def _rows(self, sql: str, asked: str) -> list[tuple[str, ...]]:
        with Database() as database:
            item, table = self._table(database)
            given = {"file": exact(self.path)}
            try:
                return database.rows(sql.format(item=item, table=table), given)
            except ScanError as error:
                raise ConfigError(f"{self.path}: {asked} cannot be applied ({error})") from None

    def _table(self, database: Database) -> tuple[str, str]:
        """The column of ids as text, and the table; ``007`` is not 7."""
        given = {"file": exact(self.path)}
        reader = "read_csv($file, hive_partitioning=false{})"
        if self.path.suffix in PARQUET:
            reader = "read_parquet($file, hive_partitioning=false{})"
        try:
            described = database.rows(f"describe select * from {reader.format('')}", given)
        except ScanError as error:
            raise DataError(f"{self.path}: not a table of items ({error})") from None
        names = [name for name, *_ in described]
        name = next((name for name in names if is_recognised(name, ITEM_NAMES)), names[0])
        if self.path.suffix in PARQUET:
            return f"{quoted(name)}::varchar", reader.format("")
        kept = name.replace("'", "''")
        return quoted(name), reader.format(f", types={{'{kept}': 'VARCHAR'}}")


def _found(given: list[Id], items: Ids) -> FoundItems:
    known = [one for one in given if one in items]
    codes = np.unique(items.encode(known, what="item"))
    return FoundItems(codes, len(given) - len(known))


def _csv_items(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = (row for row in csv.reader(file) if row)
        first = next(rows, None)
        if first is None:
            raise DataError(f"{path}: the file is empty; it must name items")
        places = [place for place, name in enumerate(first) if is_recognised(name, ITEM_NAMES)]
        column = places[0] if places else 0
        if not places:
            yield first[0].strip()
        for row in rows:
            if len(row) <= column:
                raise DataError(f"{path}: the row {','.join(row)!r} has no item")
            yield row[column].strip()


def _parquet_items(path: Path) -> Iterator[str]:
    table, given = "read_parquet($file, hive_partitioning=false)", {"file": exact(path)}
    try:
        with Database() as database:
            names = [name for name, *_ in database.rows(f"describe select * from {table}", given)]
            name = next((name for name in names if is_recognised(name, ITEM_NAMES)), names[0])
            rows = database.rows(f"select distinct {quoted(name)}::varchar from {table}", given)
            yield from (item for (item,) in rows if item is not None)
    except ScanError as error:
        raise DataError(f"{path}: not readable as Parquet ({error})") from None
