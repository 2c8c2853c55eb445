"""Delimited text: CSV, TSV and their relatives."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cerp.data.formats import text_files
from cerp.data.formats.base import COLUMN_OPTIONS, LAYOUT_OPTIONS, FileFormat, SourceFile
from cerp.data.formats.columns import Origin, Roles, Wanted, choose_columns
from cerp.data.formats.duckdb_memory import Database, ScanError, exact, quoted
from cerp.data.formats.duckdb_scan import (
    Scan,
    event_warnings,
    ignored_events,
    read_scan,
    with_columns,
)
from cerp.data.formats.line_form import delimited_form
from cerp.data.formats.regular_text import RegularText
from cerp.data.formats.sniffing import Layout, Record, records, sniff
from cerp.data.formats.times import INSTANT_FIRST, TEXT_READINGS, time_readings
from cerp.data.interactions import Interactions
from cerp.errors import DataError


@dataclass(frozen=True)
class DelimitedFile:
    """A text file whose layout is known."""

    plain: Path
    """Uncompressed UTF-8."""
    source: Path
    """What the caller named; messages do too."""
    layout: Layout

    def read(self, wanted: Wanted) -> Interactions:
        """The interactions in it."""
        names = [f"column{k}" for k in range(len(self.layout.columns))]
        roles = choose_columns(
            self.layout.columns,
            wanted,
            str(self.source),
            numeric=None if self.layout.has_header else self.layout.numeric,
        )
        origin = Origin(str(self.source), self._locate)
        data = self._read_regular(wanted, roles, origin)
        if data is not None:
            return with_columns(data, self.layout.columns, roles)
        is_numeric = roles.time in self.layout.numeric
        readings = TEXT_READINGS if is_numeric else INSTANT_FIRST
        columns = {role: names[position] for role, position in roles.present()}
        if wanted.decimal is not None:
            for role in columns.keys() & {"rating", "time", "weight"}:
                columns[role] = f"replace({columns[role]}, '{wanted.decimal}', '.')"
        table = (
            "read_csv($file, auto_detect=false, header=false, hive_partitioning=false, "
            f"columns={dict.fromkeys(names, 'VARCHAR')}, skip={self.layout.skip}, "
            "delim=$delimiter, quote=$quote, escape=$quote, compression=none)"
        )
        if wanted.where is not None and self.layout.has_header:
            table = f"(select *, {self._named(names)} from {table})"
        scan = Scan(
            table,
            given={
                "file": exact(self.plain),
                "delimiter": self.layout.delimiter,
                "quote": '"' if len(self.layout.delimiter) == 1 else "",
            },
            columns=columns,
            time_readings=time_readings(wanted, readings),
            is_text=True,
            where=wanted.where,
        )
        try:
            with Database() as database:
                data = read_scan(database, scan, wanted, origin)
                warnings = event_warnings(database, scan, self.layout.columns, names, roles)
                return with_columns(data, self.layout.columns, roles, warnings)
        except ScanError as error:
            self._refuse_broken_line()
            raise DataError(f"{self.source}: not delimited text ({error})") from None

    def _read_regular(self, wanted: Wanted, roles: Roles, origin: Origin) -> Interactions | None:
        """The interactions, where all lines are of one form."""
        layout = self.layout
        if ignored_events(layout.columns, roles):  # which DuckDB counts
            return None
        with self.plain.open("rb") as file:
            start = sum(map(len, itertools.islice(file, layout.skip)))
            form = delimited_form(
                file.readline(), layout.delimiter, len(layout.columns), roles.time
            )
        if form is None:
            return None
        text = RegularText(self.plain, start, form, dict(roles.present()), is_text=True)
        return text.read(wanted, origin)

    def _named(self, names: Sequence[str]) -> str:
        """The columns by the names of the header, as conditions know them: numbers as such."""
        numbers = (
            f"try_cast({name} as double)" if position in self.layout.numeric else name
            for position, name in enumerate(names)
        )
        return ", ".join(
            f"{number} as {quoted(str(column))}"
            for number, column in zip(numbers, self.layout.columns, strict=True)
            if column  # SQL has no empty names
        )

    def _rows(self) -> Iterator[Record]:
        """The records after the header, with their lines: slow, for messages only."""
        lines = text_files.lines(self.plain, self.source)
        for line, fields in records(lines, self.layout.delimiter):
            if line > self.layout.skip:
                yield line, fields

    def _locate(self, row: int) -> str:
        try:
            return f"line {next(itertools.islice(self._rows(), row, None))[0]}"
        except (StopIteration, csv.Error):  # DuckDB took the file otherwise than csv does
            return f"row {row + 1}"

    def _refuse_broken_line(self) -> None:
        """Name the line over which DuckDB stumbled."""
        width = len(self.layout.columns)
        line = self.layout.skip
        try:
            for line, fields in self._rows():
                if len(fields) != width:
                    raise DataError(
                        f"{self.source}, line {line}: {len(fields)} columns, where {width} are "
                        f"expected (delimiter {self.layout.delimiter!r}); correct or remove the "
                        "line, or name another delimiter="
                    )
        except csv.Error as error:
            raise DataError(f"{self.source}, after line {line}: {error}") from None
        first = None
        for number, text in enumerate(text_files.lines(self.plain, self.source), start=1):
            ending = text[len(text.rstrip("\r\n")) :]
            first = first or ending
            if ending not in (first, ""):
                raise DataError(
                    f"{self.source}, line {number}: ends in {ending!r}, the lines before in "
                    f"{first!r}; use one line ending throughout"
                )


def read_delimited(file: SourceFile, wanted: Wanted) -> Interactions:
    """The interactions in a file whose layout is told from its first lines."""
    layout = sniff(
        file.head,
        str(file.path),
        delimiter=file.delimiter,
        header=file.header,
        asked=(wanted.user, wanted.item, wanted.rating, wanted.time, wanted.weight),
        is_whole=text_files.is_all_in_head(file.plain),
        decimal=wanted.decimal,
    )
    return DelimitedFile(file.plain, file.path, layout).read(wanted)


DELIMITED = FileFormat(
    "delimited text",
    read_delimited,
    (".csv", ".tsv", ".tab", ".psv", ".dat", ".data"),
    options=COLUMN_OPTIONS | LAYOUT_OPTIONS,
)
