"""Text files as they come: compressed, in another encoding, or not text at all."""

from __future__ import annotations

import codecs
import gzip
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from cerp.cores import allowed_threads, shared_out
from cerp.errors import ConfigError, DataError

BLANKS = " \t"
"""Around a field of delimited text they are no part of it, quoted or not."""

HEAD_BYTES = 1 << 16
"""How much of a file its layout is told from."""
CHUNK_BYTES = 1 << 20

UNPACKED_BYTES, UNPACKED_RATIO = 1 << 26, 200
"""A compressed file may unpack to 64 MiB, or else to 200 times its own size: tables of ids
compress to a tenth, and what unpacks to a thousand times its size was made to fill a disk."""


def is_compressed(path: Path) -> bool:
    """Whether the name ends in ``.gz`` or ``.zip``, in any case."""
    return path.suffix.lower() in (".gz", ".zip")


def inner_name(path: Path) -> str:
    """What a compressed file is called once it is unpacked."""
    return _only_member(path).filename if path.suffix.lower() == ".zip" else path.stem


def _only_member(path: Path) -> zipfile.ZipInfo:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [
                member
                for member in archive.infolist()
                if not member.is_dir() and not member.filename.startswith("__MACOSX/")
            ]
    except zipfile.BadZipFile as error:
        raise DataError(f"{path}: the compressed file is damaged ({error})") from None
    if len(members) != 1:
        names = ", ".join(member.filename for member in members[:5]) or "nothing"
        raise DataError(
            f"{path}: holds {len(members)} files ({names}), and only one can be read; unpack it "
            "and name that one"
        )
    return members[0]


@contextmanager
def plain_text(path: Path, encoding: str = "utf-8") -> Iterator[Path]:
    """The file as uncompressed UTF-8: itself, or a copy that lives as long as the with block."""
    try:
        is_utf8 = codecs.lookup(encoding).name == "utf-8"
    except LookupError:
        raise ConfigError(f"encoding={encoding!r} is not known to Python") from None
    if is_utf8 and not is_compressed(path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="cerp-") as scratch:
        copy = Path(scratch) / "plain"
        _copy_as_utf8(path, copy, encoding, is_utf8=is_utf8)
        yield copy


def head(plain: Path, source: Path) -> str:
    """The first lines of a plain file; binary content is refused."""
    with plain.open("rb") as file:
        start = file.read(HEAD_BYTES)
        is_whole = not file.read(1)
    if b"\0" in start:
        raise nul_error(source, start.count(b"\n", 0, start.index(b"\0")) + 1)
    if not is_whole:
        start = start[: start.rfind(b"\n") + 1]
        if not start:
            raise overlong_error(source, 1)
    try:
        return start.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8_error(source, start.count(b"\n", 0, error.start) + 1) from None


def refuse_nul(plain: Path, source: Path) -> None:
    """Refuse a file with a NUL byte anywhere: readers would end a field, or an id, there."""
    size = plain.stat().st_size
    share = max(-(-size // allowed_threads()), CHUNK_BYTES)
    found = shared_out(lambda start: _nul_in(plain, start, share), range(0, size, share))
    places = [place for place in found if place is not None]
    if places:
        raise nul_error(source, _line_at(plain, places[0]))


def _nul_in(plain: Path, start: int, share: int) -> int | None:
    """Where the first NUL byte of a share of the file is, if any is there or close behind."""
    buffer = np.empty(CHUNK_BYTES, dtype=np.uint8)
    place = start
    with plain.open("rb", buffering=0) as file:
        file.seek(start)
        while place < start + share and (count := file.readinto(buffer.data)):
            if buffer[:count].min() == 0:
                return place + int(buffer[:count].argmin())
            place += count
    return None


def _line_at(plain: Path, place: int) -> int:
    """The number of the line that the byte at a place of a file is in."""
    with plain.open("rb") as file:
        before = 0
        while chunk := file.read(min(CHUNK_BYTES, place)):
            before += chunk.count(b"\n")
            place -= len(chunk)
    return before + 1


def is_all_in_head(plain: Path) -> bool:
    """Whether what `head` returns is the whole file."""
    return plain.stat().st_size <= HEAD_BYTES


def lines(plain: Path, source: Path) -> Iterator[str]:
    """The lines of a plain file, with an error that names the first that is not UTF-8."""
    with plain.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        for number, line in enumerate(file, start=1):
            if not line.isascii() and any("\udc80" <= character <= "\udcff" for character in line):
                raise not_utf8_error(source, number)
            yield line


def not_utf8_error(source: Path, line: int) -> DataError:
    """The error for a line that cannot be decoded."""
    return DataError(
        f'{source}, line {line}: not UTF-8 text; pass its encoding, for example encoding="latin-1"'
    )


def nul_error(source: object, line: int) -> DataError:
    """The error for a NUL byte."""
    return DataError(
        f"{source}, line {line}: binary data (it contains NUL bytes), not text; "
        'if it is UTF-16 text, pass encoding="utf-16"'
    )


def overlong_error(source: object, line: int) -> DataError:
    """The error for a line at the start of a file that hides what comes after it."""
    return DataError(
        f"{source}: line {line} is longer than what the layout is told from, the first "
        f"{HEAD_BYTES:,} bytes of the file: not a table. Is a line break missing?"
    )


def empty_error(source: object) -> DataError:
    """The error for a file without content."""
    return DataError(
        f"{source}: the file is empty; it must hold interactions, each with a user and an item"
    )


def comment_error(source: object, line: int) -> DataError:
    """The error for a line that is for people."""
    return DataError(
        f"{source}, line {line}: starts with '#'; comments are not read, remove the line"
    )


def unpacked(path: Path) -> Iterator[bytes]:
    """The content of a compressed file, in pieces; one that grows beyond measure is refused."""
    most, size = max(UNPACKED_BYTES, UNPACKED_RATIO * path.stat().st_size), 0
    try:
        with _opened(path) as file:
            while chunk := file.read(CHUNK_BYTES):
                size += len(chunk)
                if size > most:
                    raise DataError(
                        f"{path}: unpacks to more than {most:,} bytes, {UNPACKED_RATIO} times its "
                        "size: no table does; if it is one, unpack it and read that"
                    )
                yield chunk
    except (EOFError, gzip.BadGzipFile, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: the compressed file is damaged ({error})") from None
    except (NotImplementedError, RuntimeError) as error:  # of zip: another method, a password
        raise DataError(f"{path}: cannot be unpacked ({error}); unpack it and read that") from None


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    if path.suffix.lower() == ".gz":
        with gzip.open(path, "rb") as file:
            yield file
        return
    with zipfile.ZipFile(path) as archive, archive.open(_only_member(path)) as member:
        yield member


def _copy_as_utf8(path: Path, copy: Path, encoding: str, *, is_utf8: bool) -> None:
    if is_compressed(path):
        packed, path = path, copy if is_utf8 else copy.with_name("unpacked")
        with path.open("wb") as file:
            file.writelines(unpacked(packed))
        if is_utf8:  # copied as it is: whoever reads it can name the bad line
            return
    else:
        packed = path
    try:
        with (
            path.open(encoding=encoding, newline="") as source,
            copy.open("w", encoding="utf-8", newline="") as target,
        ):
            shutil.copyfileobj(source, target, CHUNK_BYTES)
    except LookupError:
        raise ConfigError(f"encoding={encoding!r} is not a text encoding") from None
    except UnicodeError as error:
        raise DataError(f"{packed}: not {encoding} text ({error})") from None
