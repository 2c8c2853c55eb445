"""A DuckDB database in memory, and how it is told paths and names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cerp.errors import DataError, MissingExtra


class ScanError(DataError):
    """DuckDB could not read a source; the message is the first line of its own."""


def exact(path: Path) -> str:
    """How DuckDB is told a path: it takes ``* ? [`` for a pattern, ``~`` and ``file:`` for more."""
    return re.sub(r"[*?[]", r"[\g<0>]", os.path.abspath(path))  # noqa: PTH100 - keeps links


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


class Database:
    """A DuckDB database in memory: silent, in UTC, and off the network."""

    def __init__(self) -> None:
        try:
            import duckdb
        except ImportError:
            raise MissingExtra("Reading tables", "duckdb", "train") from None
        offline: dict[str, Any] = {
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        self._connection: Any = duckdb.connect(":memory:", config=offline)
        self._error = duckdb.Error
        self.rows("set enable_progress_bar = false")
        self.rows("set timezone = 'UTC'")

    def register(self, name: str, table: Any) -> None:
        """Make a table in memory known by a name."""
        try:
            self._connection.register(name, table)
        except self._error as error:
            raise ScanError(str(error).partition("\n")[0]) from None

    def rows(self, sql: str, given: Mapping[str, Any] | None = None) -> list[Any]:
        """The result of a statement as tuples."""
        return self._run(sql, given, "fetchall")  # type: ignore[no-any-return]

    def arrays(self, sql: str) -> dict[str, Any]:
        """The result of a query as NumPy arrays by column, masked where there is a NULL."""
        return self._run(sql, None, "fetchnumpy")  # type: ignore[no-any-return]

    def hand_back(self) -> None:
        """Give the memory of dropped tables and columns back to the system.

        DuckDB keeps it for tables to come; only a change of its settings lets it go at once.
        """
        ((threads,),) = self.rows("select current_setting('threads')")
        for count in (threads + 1, threads):
            self.rows(f"set threads = {count}")

    def _run(self, sql: str, given: Mapping[str, Any] | None, fetch: str) -> Any:
        try:
            return getattr(self._connection.execute(sql, given), fetch)()
        except self._error as error:
            raise ScanError(str(error).partition("\n")[0]) from None

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
