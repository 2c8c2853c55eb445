"""Model files that lie: a valid file with a few changes, and a checksum that fits again.

Most are malformed and some are another model; whatever they are, every decoder has to say
the same. `forged` draws one; what it draws is a function of the file and the generator alone.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
CHECKSUM_MARK = rb"\"crc32\":\""
DIGITS = 8

ODD_VALUES: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 7, 64, 65, 127, 128, 255, 256, 1000, 2**16 - 1, 2**16, 2**20, 2**21),
    *(2**31 - 2, 2**31 - 1, 2**31, 2**48, 2**53, 2**63, 2**64, 10**30, 10**400),
    *(0.5, 1.0, 2.0, -0.0, 1e-12, 1e6, 1e300, True, False, None, "", [], {}, [1, 2], {"a": 1}),
    *("int4", "int8", "fp16", "fp32", "gaps", "prefix", "bitmap", "dense", "lehmer", "codes"),
    *("coded", "planes", "deflated", "identity", "modulo", "quotient", "scaled", "hashed"),
    *("sum", "product", "concat", "range", "integers", "strings", "mf", "mlp", "lightgcn"),
    *("filter", "mf+filter", "mlp+filter", "lightgcn+filter", "filter+filter", "__proto__"),
    *("sharp-filter", "mf+sharp-filter", "lightgcn+sharp-filter", "sharp-filter+filter"),
    *("sums", "sums+filter", "sums+sharp-filter", "neighbours", "neighbours+filter"),
    *("F32", "F16", "I8", "U8", "I64", "seen", "titles", "\ud800", "\U0001f600", "\x00"),
)
"""What stands where something else should: other types, limits and their neighbours, and every
word of the format, for it may be right elsewhere."""


def with_right_checksum(data: bytes) -> bytes:
    """The file with the checksum that fits, as far as there is a place for one."""
    mark = data.find(CHECKSUM_MARK)
    begin = mark + len(CHECKSUM_MARK)
    if mark < 0 or len(data) < begin + DIGITS:
        return data
    zeroed = data[:begin] + b"0" * DIGITS + data[begin + DIGITS :]
    return zeroed[:begin] + b"%08x" % zlib.crc32(zeroed) + zeroed[begin + DIGITS :]


def parts(data: bytes) -> tuple[Json, bytes]:
    """Header and payload of a valid file."""
    end = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:end]), data[end:]


def joined(header: Json | str, payload: bytes) -> bytes:
    """The file of a header, or of its text, and a payload."""
    written = header if isinstance(header, str) else json.dumps(header, separators=(",", ":"))
    text = written.encode("utf-8", "surrogatepass")
    text += b" " * (-len(text) % 8)
    return with_right_checksum(len(text).to_bytes(8, "little") + text + payload)


def forged(data: bytes, rng: random.Random) -> bytes:
    """One of the many ways to change a file."""
    return rng.choice(WAYS)(data, rng)


def _other_metadata(data: bytes, rng: random.Random) -> bytes:
    header, payload = parts(data)
    metadata = json.loads(header["__metadata__"]["cerp"])
    for _ in range(rng.randint(1, 2)):
        metadata = _with_change(metadata, rng)
    header["__metadata__"]["cerp"] = json.dumps(metadata, separators=(",", ":"))
    return joined(header, payload)


def _other_entry(data: bytes, rng: random.Random) -> bytes:
    header, payload = parts(data)
    name = rng.choice(_names(header))
    return joined(header | {name: _with_change(header[name], rng)}, payload)


def _other_layout(data: bytes, rng: random.Random) -> bytes:
    """A tensor of the same bytes in another type or shape, or under another name."""
    header, payload = parts(data)
    name = rng.choice(_names(header))
    entry = header[name]
    begin, end = entry["data_offsets"]
    kind = rng.randrange(3)
    if kind == 0:
        entry["dtype"], size = rng.choice((("U8", 1), ("I8", 1), ("F16", 2), ("F32", 4)))
        entry["shape"] = [(end - begin) // size]
    elif kind == 1:
        count = _product(entry["shape"])
        entry["shape"] = rng.choice(([count, 1], [1, count], [], [count, 1, 1], [count]))
    else:
        other = rng.choice([*_names(header), "backbone.first.weight", "later.part", "order"])
        header[name], header[other] = header.get(other, entry), entry
    return joined(header, payload)


def _other_content(data: bytes, rng: random.Random) -> bytes:
    """A tensor with other bytes: of another length, or of another content where it is deflated."""
    header, payload = parts(data)
    names = _names(header)
    chosen = rng.choice(names)
    contents = {name: payload[slice(*header[name]["data_offsets"])] for name in names}
    contents[chosen] = _with_other_bytes(contents[chosen], rng)
    header[chosen]["shape"] = [len(contents[chosen]) // _width(header[chosen])]
    return joined(header, _placed(header, contents))


def _other_parts(data: bytes, rng: random.Random) -> bytes:
    """A tensor too few, or one too many, which the metadata may allow."""
    header, payload = parts(data)
    names = _names(header)
    contents = {name: payload[slice(*header[name]["data_offsets"])] for name in names}
    if rng.random() < 0.5:
        name = rng.choice(names)
        del header[name], contents[name]
    else:
        name = rng.choice(("later.part", "later", "backbone.extra", "seen.more", "embedding.9.x"))
        contents[name] = rng.randbytes(rng.randrange(9))
        header[name] = {"dtype": "U8", "shape": [len(contents[name])]}
        if rng.random() < 0.5:
            metadata = json.loads(header["__metadata__"]["cerp"])
            metadata["optional"] = [name.partition(".")[0]]
            header["__metadata__"]["cerp"] = json.dumps(metadata, separators=(",", ":"))
    return joined(header, _placed(header, contents))


def _other_text(data: bytes, rng: random.Random) -> bytes:
    """The same JSON written in a way that a lenient parser might take."""
    header, payload = parts(data)
    inner: str = header["__metadata__"]["cerp"]
    changes: tuple[Callable[[str], str], ...] = (
        lambda text: "\ufeff" + text,
        lambda text: text + rng.choice(("x", ",", "}", "\x00", "\u00a0", " \t\r\n", "//")),
        lambda text: text.replace(":", rng.choice((" : ", ":\t", ":\x0b", "::", "=")), 1),
        lambda text: text.replace("{", rng.choice(('{"a":1,"a":1,', '{"users":2,', "{,", "{ ")), 1),
        lambda text: text.replace("}", rng.choice((",}", ',"z":NaN}', ',"z":-Infinity}')), 1),
        lambda text: text.replace("}", rng.choice((',"z":1e999}', ',"z":01}', ',"z":.5}')), 1),
        lambda text: text.replace("}", f',"z":{"[" * 40}{"]" * 40}}}', 1),
        lambda text: text.replace("}", f',"z":{"[" * 31}{"]" * 31}}}', 1),
        lambda text: text.replace("}", rng.choice((",'z':1}", ',"z":"\t"}', ',"z":"\\x"}')), 1),
        lambda text: text.replace("}", rng.choice((',"z":"\\ud800"}', ',"__proto__":{}}')), 1),
        lambda text: text.replace("0,", rng.choice(("0.0,", "0e0,", "-0,", "00,", "+0,")), 1),
        lambda text: text.replace("1,", rng.choice(("1.0,", "1e0,", "1.,", "0x1,", "1_0,")), 1),
    )
    change = rng.choice(changes)
    if rng.random() < 0.5:
        header["__metadata__"]["cerp"] = change(inner)
        return joined(header, payload)
    return joined(change(json.dumps(header, separators=(",", ":"))), payload)


def _other_bytes(data: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(data)
    begin = rng.choice((0, len(data) - len(parts(data)[1])))
    for _ in range(rng.randint(1, 4)):
        damaged[rng.randrange(min(begin, len(data) - 1), len(data))] = rng.randrange(256)
    return with_right_checksum(bytes(damaged))


def _other_length(data: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return with_right_checksum(data[: rng.randrange(len(data))])
    return with_right_checksum(data + rng.randbytes(rng.randint(1, 16)))


WAYS = (
    *(_other_metadata,) * 4,
    *(_other_content,) * 3,
    *(_other_bytes,) * 2,
    *(_other_entry, _other_layout, _other_parts, _other_text, _other_length),
)
"""As often as they are likely to find something."""


def _with_change(value: Any, rng: random.Random) -> Any:
    """A JSON value with one leaf, or one branch, replaced, added or left out."""
    if isinstance(value, dict) and value and rng.random() < 0.93:
        key = rng.choice(sorted(value))
        if rng.random() < 0.05:
            return {kept: value[kept] for kept in value if kept != key}
        return value | {key: _with_change(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = rng.randrange(len(value))
        return [*value[:place], _with_change(value[place], rng), *value[place + 1 :]]
    if type(value) is int and rng.random() < 0.5:
        return value + rng.choice((-2, -1, 1, 2, 8))
    return rng.choice(ODD_VALUES)


def _with_other_bytes(content: bytes, rng: random.Random) -> bytes:
    try:
        inflated = zlib.decompress(content)
    except zlib.error:
        return _damaged(content, rng)
    if rng.random() < 0.2:
        return _damaged(content, rng)
    stream = zlib.compress(_damaged(inflated, rng), rng.choice((0, 1, 9)))
    return stream + rng.choice((b"", b"", b"", b"\x00", b"more"))


def _damaged(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    kind = rng.randrange(4)
    if kind == 0 or not changed:
        return bytes(changed) + rng.randbytes(rng.randint(1, 8))
    if kind == 1:
        return bytes(changed[: -rng.randint(1, 4)])
    for _ in range(rng.randint(1, 3)):
        changed[rng.randrange(len(changed))] = rng.choice((0, 1, 34, 44, 127, 128, 243, 244, 255))
    return bytes(changed)


def _placed(header: Json, contents: dict[str, bytes]) -> bytes:
    """The payload of some tensors, whose places the header is told; wide types first."""
    payload = b""
    for name in sorted(contents, key=lambda name: (-_width(header[name]), name)):
        header[name]["data_offsets"] = [len(payload), len(payload) + len(contents[name])]
        payload += contents[name]
    return payload


def _names(header: Json) -> list[str]:
    return sorted(name for name in header if name != "__metadata__")


def _width(entry: Json) -> int:
    return {"F32": 4, "F16": 2}.get(entry.get("dtype", ""), 1)


def _product(shape: list[int]) -> int:
    count = 1
    for length in shape:
        count *= length
    return count
