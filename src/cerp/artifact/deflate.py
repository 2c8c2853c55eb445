"""Deflated bytes that cannot turn out to be a bomb."""

from __future__ import annotations

import zlib

import numpy as np

from cerp.artifact.bits import Bytes
from cerp.errors import MalformedFileError

LARGEST_RATIO = 16
"""No content is longer than so many times its stream, plus as many bytes: a bomb is seen before
it goes off. Real content shrinks two- to eightfold."""
WITHOUT_REPEATS = (zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE)
"""The strategies that look for no repeats but runs. A million bytes take them 0.1 s; the others
up to 10 s, longest where there is little to find."""
STRATEGIES = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, *WITHOUT_REPEATS)
SHORT = 2**14
"""Bytes in which repeats are always looked for: it takes no time, and chance may make some."""


def deflate(content: bytes, *, is_random: bool = False) -> Bytes:
    """The shortest zlib stream of bytes that keeps to `LARGEST_RATIO`.

    Matching repeats, what deflate is made for, is often worse than none for
    numbers of high entropy, so all strategies are tried. One that matches
    nothing shrinks at most eightfold, so there always is a permitted one. In
    random content nothing repeats, and looking would take nearly all of the time.
    """
    strategies = WITHOUT_REPEATS if is_random and len(content) > SHORT else STRATEGIES
    streams = [_stream(content, strategy) for strategy in strategies]
    permitted = [stream for stream in streams if may_hold(len(stream), len(content))]
    return np.frombuffer(min(permitted, key=len), dtype=np.uint8)


def inflate(stream: Bytes, length: int, *, what: str) -> bytes:
    """The content of a stream, which must be ``length`` bytes long; no more are ever made."""
    if not may_hold(len(stream), length):
        raise MalformedFileError(
            f"{what} claims {length:,} bytes from a deflated stream of {len(stream):,}; "
            f"no more than {LARGEST_RATIO} times as much is accepted"
        )
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(stream.tobytes(), length + 1)
    except zlib.error as error:
        raise MalformedFileError(f"{what} is not a zlib stream ({error})") from None
    if len(content) != length or not inflater.eof or inflater.unused_data:
        raise MalformedFileError(f"{what} does not hold the {length:,} bytes it should")
    return content


def may_hold(stream_length: int, content_length: int) -> bool:
    """Whether a stream is long enough for what it claims to hold."""
    return content_length <= LARGEST_RATIO * (stream_length + 1)


def _stream(content: bytes, strategy: int) -> bytes:
    deflater = zlib.compressobj(level=9, memLevel=9, strategy=strategy)
    return deflater.compress(content) + deflater.flush()
