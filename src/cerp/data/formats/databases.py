"""A DuckDB database file: one of its tables, or the result of a query."""

from __future__ import annotations

from cerp.data.formats.base import COLUMN_OPTIONS, FileFormat, SourceFile
from cerp.data.formats.columns import Wanted
from cerp.data.formats.duckdb_memory import Database, ScanError, quoted
from cerp.data.formats.typed_tables import read_typed
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError, DataError


def read_database(file: SourceFile, wanted: Wanted) -> Interactions:
    """The interactions that a query gives, or the only table of the database."""
    try:
        with Database() as database:
            path = str(file.path).replace("'", "''")
            database.rows(f"attach '{path}' as source (read_only)")
            database.rows("use source")
            return read_typed(database, _table(database, file), {}, str(file.path), wanted)
    except ScanError as error:
        raise DataError(f"{file.path}: not readable as a DuckDB database ({error})") from None


def _table(database: Database, file: SourceFile) -> str:
    if file.sql is not None:
        try:
            database.rows(f"describe {file.sql}")
        except ScanError as error:
            raise ConfigError(
                f"{file.path}: sql={file.sql!r} cannot be answered ({error}); give one query that "
                "selects users and items"
            ) from None
        return f"({file.sql.rstrip().rstrip(';')})"
    names = [name for (name,) in database.rows("select table_name from duckdb_tables()")]
    if len(names) != 1:
        there = ", ".join(sorted(names)) or "none"
        raise ConfigError(
            f'{file.path}: say what to read with sql=, such as "select * from sales"; its tables '
            f"are: {there}"
        )
    return quoted(names[0])


DUCKDB = FileFormat(
    "a DuckDB database",
    read_database,
    (".duckdb", ".ddb"),
    options=COLUMN_OPTIONS | {"sql"},
    is_text=False,
)
