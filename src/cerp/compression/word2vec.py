"""word2vec's files, text and binary, as gensim, fastText and the original tool write them.

The first line has the number of words and of values. Text then has a line for each word, the
word and its values between spaces; binary the word, a space, and its values as 32-bit floats.
Values go to a temporary file that is mapped into memory, so that only the words are held.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import BinaryIO

import numpy as np

from cerp.data.ids import Float32Array
from cerp.errors import DataError

HEADER = re.compile(rb"\s*(\d{1,10})\s+(\d{1,6})\s*\n?")
LONGEST_WORD = 4096


def is_word2vec(path: Path) -> bool:
    """Whether a file begins with two whole numbers in a line."""
    with path.open("rb") as file:
        return HEADER.fullmatch(file.readline(64)) is not None


def read_word2vec(path: Path) -> tuple[Float32Array, list[str]]:
    """Vectors, and the word of each."""
    with path.open("rb") as file:
        found = HEADER.fullmatch(file.readline(64))
        if found is None:
            raise DataError(
                f"{path}, line 1: word2vec's files begin with the number of words and of values, "
                "such as '3000 100'"
            )
        count, dim = int(found[1]), int(found[2])
        if not count or not dim or count * dim > 16 * path.stat().st_size:
            raise DataError(f"{path} is too short for {count:,} words of {dim:,} values")
        with tempfile.TemporaryFile() as scratch:  # the mapping outlives the name
            values = np.memmap(scratch, np.float32, "w+", shape=(count, dim))
        is_text = path.suffix.lower() != ".bin"
        words = (_text if is_text else _binary)(file, values, path)
    if len(set(words)) != count:
        raise DataError(f"{path} has the same word twice; remove one of the lines")
    return values, words


def _text(file: BinaryIO, values: Float32Array, path: Path) -> list[str]:
    words = []
    for number in range(len(values)):
        parts = file.readline().rstrip().rsplit(b" ", values.shape[1])
        try:
            values[number] = [float(part) for part in parts[1:]]
        except ValueError:
            raise DataError(
                f"{path}, line {number + 2}: there should be a word and {values.shape[1]} values"
            ) from None
        words.append(parts[0].decode("utf-8", errors="replace"))
    return words


def _binary(file: BinaryIO, values: Float32Array, path: Path) -> list[str]:
    words, size = [], 4 * values.shape[1]
    for number in range(len(values)):
        word = bytearray()
        while (sign := file.read(1)) != b" ":
            if not sign or len(word) > LONGEST_WORD:
                raise DataError(f"{path} ends, or is not binary, at word {number + 1}")
            if sign != b"\n" or word:
                word += sign
        content = file.read(size)
        if len(content) != size:
            raise DataError(f"{path} ends in the middle of word {number + 1}")
        values[number] = np.frombuffer(content, dtype="<f4")
        words.append(word.decode("utf-8", errors="replace"))
    return words
