"""Parquet: one file, a folder of parts of one table, or one partitioned as Hive does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from cerp.data.formats.base import FileFormat, SourceFile
from cerp.data.formats.columns import Wanted
from cerp.data.formats.duckdb_memory import Database, ScanError, exact
from cerp.data.formats.typed_tables import read_typed
from cerp.data.interactions import Interactions
from cerp.errors import DataError

SUFFIXES = (".parquet", ".pq")


def read_parquet(file: SourceFile, wanted: Wanted) -> Interactions:
    """The interactions in a file."""
    return read_parts([file.plain], file.path, wanted)


def parts_in(folder: Path) -> list[Path]:
    """The parts of one table that lie in a folder, by name; of partitions, by their paths."""
    return _parts(folder.iterdir()) or _parts(folder.glob("*=*/**/*"))


def _parts(files: Iterable[Path]) -> list[Path]:
    return sorted(
        file for file in files if file.suffix.lower() in SUFFIXES and file.name[0] not in "._"
    )


def read_parts(files: Sequence[Path], source: Path, wanted: Wanted) -> Interactions:
    """The interactions in the files together; ``source`` is their name in messages."""
    is_partitioned = files[0].parent != source and source.is_dir()
    table = f"read_parquet($files, hive_partitioning={str(is_partitioned).lower()})"
    given = {"files": [exact(file) for file in files]}
    try:
        with Database() as database:
            return read_typed(database, table, given, str(source), wanted)
    except ScanError as error:
        raise DataError(f"{source}: not readable as Parquet ({error})") from None


PARQUET = FileFormat("Parquet", read_parquet, SUFFIXES, is_text=False)
