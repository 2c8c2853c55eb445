"""Damaged and forged .cerp files: a named error each, soon and without much memory."""

from __future__ import annotations

import json
import random
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import safetensors
from safetensors.numpy import load, save

from campaigns.forging import CHECKSUM_MARK, Json, forged, joined, parts, with_right_checksum
from cerp import artifact
from cerp.artifact import ComposedEmbedding, Encoding, Index, ShippedModel, Table
from cerp.artifact.container import unpack
from cerp.errors import (
    ChecksumError,
    FileFormatError,
    FormatVersionError,
    MalformedFileError,
    TruncatedFileError,
)
from golden_model import GOLDEN, GOLDEN_CODED
from small_models import BACKBONES, coded_model, small_model

DATA = GOLDEN.read_bytes()
CODED = GOLDEN_CODED.read_bytes()
ENOUGH_MEMORY = 40 * 2**20


@contextmanager
def little_memory() -> Iterator[None]:
    """Fails if more than `ENOUGH_MEMORY` is allocated inside."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < ENOUGH_MEMORY
    finally:
        tracemalloc.stop()


def with_header(change: Callable[[Json], object], data: bytes = DATA) -> bytes:
    """A golden file with a changed header."""
    header, payload = parts(data)
    change(header)
    return joined(header, payload)


def with_metadata(change: Callable[[Json], object], data: bytes = DATA) -> bytes:
    """A golden file with changed metadata."""

    def change_text(header: Json) -> None:
        metadata = json.loads(header["__metadata__"]["cerp"])
        change(metadata)
        text = json.dumps(metadata, sort_keys=True, separators=(",", ":"))
        header["__metadata__"]["cerp"] = text

    return with_header(change_text, data)


def with_tensors(data: bytes = DATA, /, **changes: np.ndarray | None) -> bytes:
    """A golden file with other tensors; ``__`` stands for a dot, None for none."""
    tensors = load(data)
    for name, tensor in changes.items():
        tensors.pop(name.replace("__", "."), None)
        if tensor is not None:
            tensors[name.replace("__", ".")] = tensor
    return with_right_checksum(save(tensors, parts(data)[0]["__metadata__"]))


def table(metadata: Json, number: int = 0) -> Json:
    return metadata["embedding"]["tables"][number]


def deflated(content: bytes) -> np.ndarray:
    return np.frombuffer(zlib.compress(content), dtype=np.uint8)


def test_the_helpers_here_forge_well():
    artifact.decode(with_header(lambda header: None))
    artifact.decode(with_metadata(lambda metadata: None))
    artifact.decode(with_tensors())


def test_every_flipped_bit_is_noticed():
    for place in range(len(DATA)):
        for bit in range(8):
            damaged = bytearray(DATA)
            damaged[place] ^= 1 << bit
            with pytest.raises(FileFormatError):
                artifact.decode(damaged)


def test_every_truncation_is_noticed():
    for length in range(len(DATA)):
        with pytest.raises(FileFormatError):
            artifact.decode(DATA[:length])


def test_a_missing_end_is_called_that_with_the_number_of_bytes():
    with pytest.raises(TruncatedFileError, match="10 bytes are missing at the end"):
        artifact.decode(DATA[:-10])


def test_damage_is_told_from_a_missing_end():
    with pytest.raises(ChecksumError, match="damaged; copy or download it again"):
        artifact.decode(DATA[:-1] + b"?")
    with pytest.raises(ChecksumError):
        artifact.decode(DATA + b"?")


def test_errors_of_reading_name_the_file(tmp_path):
    (tmp_path / "short.cerp").write_bytes(DATA[:-1])
    with pytest.raises(TruncatedFileError, match=r"short\.cerp: 1 bytes are missing"):
        artifact.read(tmp_path / "short.cerp")


def test_an_empty_file_is_truncated(tmp_path):
    (tmp_path / "empty.cerp").touch()
    with pytest.raises(TruncatedFileError, match="0 bytes are too few"):
        artifact.read(tmp_path / "empty.cerp")


def test_a_later_format_asks_for_an_upgrade():
    with pytest.raises(FormatVersionError, match="upgrade cerp"):
        artifact.decode(with_metadata(lambda metadata: metadata.update(format=2)))


def test_another_safetensors_file_is_not_a_model():
    with pytest.raises(MalformedFileError, match="so it is not a"):
        artifact.decode(save({"weight": np.zeros(3, dtype=np.float32)}))


HEADERS: dict[str, tuple[Callable[[Json], object], str]] = {
    "overlap": (lambda h: h["order"].update(data_offsets=[0, 1]), "without gap or overlap"),
    "too long": (lambda h: h["order"].update(data_offsets=[42, 44]), "without gap or overlap"),
    "beyond the end": (lambda h: h["titles"].update(data_offsets=[64, 2**40]), "gap or overlap"),
    "backwards": (lambda h: h["titles"].update(data_offsets=[95, 64]), "gap or overlap"),
    "negative offset": (lambda h: h["titles"].update(data_offsets=[-64, 95]), "data_offsets"),
    "negative shape": (lambda h: h["titles"].update(shape=[-31]), "no proper shape"),
    "negative shapes": (lambda h: h["titles"].update(shape=[-31, -1]), "no proper shape"),
    "huge shape": (lambda h: h["titles"].update(shape=[2**40, 2**40]), "gap or overlap"),
    "shape of true": (lambda h: h["titles"].update(shape=[True]), "no proper shape"),
    "many dimensions": (lambda h: h["titles"].update(shape=[1] * 60), "no proper shape"),
    "fractional shape": (lambda h: h["titles"].update(shape=[31.0]), "no proper shape"),
    "nan": (lambda h: h["titles"].update(shape=[float("nan")]), "NaN is not a number"),
    "another type": (lambda h: h["titles"].update(dtype="I64"), "has the type 'I64'"),
    "a list as type": (lambda h: h["titles"].update(dtype=[]), "has the type"),
    "a number as entry": (lambda h: h.update(titles=5), "data_offsets"),
    "bytes of no tensor": (lambda h: h.pop("users.ids"), "belong to no tensor"),
}


@pytest.mark.parametrize(("change", "message"), HEADERS.values(), ids=HEADERS)
def test_a_forged_header_is_malformed(change: Callable[[Json], object], message: str):
    with little_memory(), pytest.raises(MalformedFileError, match=message):
        artifact.decode(with_header(change))


def test_a_header_length_beyond_reason_is_refused_unread():
    with pytest.raises(MalformedFileError, match="claims a header of 18,446,744"):
        artifact.decode(b"\xff" * 8 + DATA[8:])
    with pytest.raises(TruncatedFileError, match="header should have 1,000,000 bytes"):
        artifact.decode((10**6).to_bytes(8, "little") + DATA[8:])


def test_nesting_without_end_is_malformed():
    text = b'{"__metadata__":{"cerp":"' + CHECKSUM_MARK + b'00000000"},"a":' + b"[" * 100_000
    with little_memory(), pytest.raises(MalformedFileError, match="not JSON"):
        artifact.decode(with_right_checksum(len(text).to_bytes(8, "little") + text))


METADATA: dict[str, tuple[Callable[[Json], object], str]] = {
    "many items": (lambda m: m.update(items=2**31 - 3), "entities are claimed"),
    "more than int32": (lambda m: m.update(items=2**31), "metadata.items must be an integer"),
    "many users": (lambda m: m.update(users=2**20 - 3), "takes 2,490,369 bytes"),
    "negative users": (lambda m: m.update(users=-1), "metadata.users must be an integer"),
    "users are true": (lambda m: m.update(users=True), "metadata.users must be an integer"),
    "huge table": (lambda m: table(m).update(rows=2**31 - 1), "cells are claimed from"),
    "wide table": (lambda m: table(m).update(columns=2**31 - 1), "cells are claimed from"),
    "no columns": (lambda m: table(m).update(columns=0, rows=2**31 - 1), "from 1 to"),
    "many rows": (lambda m: table(m).update(rows=2**20), "positions.bitmap claims 524,288 bytes"),
    "many stored": (lambda m: table(m).update(stored=13), "stored must be an integer from 0 to 12"),
    "few stored": (lambda m: table(m).update(stored=3), "does not name the 3 stored values"),
    "not dense": (lambda m: table(m, 1).update(stored=11), "dense but does not store all"),
    "another codec": (lambda m: table(m).update(values="int2"), "values must be one of fp32"),
    "other values": (lambda m: table(m).update(values="fp16"), "holds uint8, not float16"),
    "other positions": (lambda m: table(m).update(positions="gaps"), "gaps.classes is missing"),
    "dividing by zero": (lambda m: table(m)["index"].update(size=0), "size from 1 on"),
    "beyond the rows": (lambda m: table(m)["index"].update(size=4), "leads to row 3"),
    "factor": (lambda m: table(m)["index"].update(factor=2**30), "has the factor"),
    "no table": (lambda m: m["embedding"].update(tables=[]), "what the tensor embedding.0"),
    "tables are none": (lambda m: m["embedding"].update(tables=None), "is not a list"),
    "a word as embedding": (lambda m: m.update(embedding="none"), "embedding is not an object"),
    "many edges": (lambda m: m["seen"].update(edges=2**31 - 1), "do not add up"),
    "no graph": (lambda m: m.update(seen=None), "what the tensor seen"),
    "forgotten tensors": (lambda m: m.update(titles=None), "what the tensor titles is for"),
    "endless layers": (lambda m: m.update(layers=2**31 - 1), "1 to 64 are possible"),
    "long titles": (lambda m: m["titles"].update(bytes=2**31 - 1), "no more than 16 times"),
    "no layers": (lambda m: m.update(layers=0), "'lightgcn' goes with 1 or more layers"),
    "layers of mf": (lambda m: m.update(backbone="mf"), "'mf' goes with 0 layers"),
    "another way to score": (lambda m: m.update(backbone="fm"), "must be one of mf, mlp, light"),
    "an mlp without weights": (lambda m: m.update(backbone="mlp", layers=0), "tower are missing"),
    "other ids": (lambda m: m["ids"]["users"].update(kind="integers"), "ids.classes is missing"),
    "optional parts": (lambda m: m.update(optional="seen"), "optional is not a list of words"),
    "facts": (lambda m: m.update(facts=[]), "facts is not an object"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "message"), METADATA.values(), ids=METADATA)
def test_forged_metadata_are_malformed(change: Callable[[Json], object], message: str):
    with little_memory(), pytest.raises(MalformedFileError, match=message):
        artifact.decode(with_metadata(change))


TENSORS: dict[str, tuple[dict[str, np.ndarray | None], str]] = {
    "missing": ({"order": None}, "order is missing"),
    "unknown": ({"virus": np.zeros(3, np.uint8)}, "what the tensor virus is for"),
    "nan": ({"embedding__0__scales": np.full(3, np.nan, np.float16)}, "NaN or infinity"),
    "negative": ({"embedding__0__scales": np.full(3, -1, np.float16)}, "negative scale"),
    "short": ({"embedding__1__values": np.zeros(5, np.uint8)}, r"shape \[5\], not \[6\]"),
    "square": ({"embedding__1__values": np.zeros((2, 3), np.uint8)}, r"shape \[2, 3\]"),
    "bomb": ({"titles": deflated(bytes(10**8))}, "does not hold the 24 bytes"),
    "no stream": ({"titles": np.zeros(30, np.uint8)}, "not a zlib stream"),
    "cut stream": ({"titles": deflated(b"x" * 24)[:-5]}, "does not hold"),
    "no json": ({"titles": deflated(b"x" * 24)}, "is not JSON"),
    "numbers as titles": ({"titles": deflated(b"[1,2,3]" + b" " * 17)}, "else than strings"),
    "too few titles": ({"titles": deflated(b"[]" + b" " * 22)}, "not a list of 3"),
    "twins": ({"users__ids": deflated(b'["bo", "bo"]')}, "not distinct"),
    "empty order": ({"order": np.zeros(0, np.uint8)}, "takes 1 bytes"),
    "no order": ({"order": np.full(1, 255, np.uint8)}, "not a permutation"),
    "many edges": ({"seen__counts__classes": deflated(bytes([3, 3]))}, "do not add up"),
    "far edges": ({"seen__gaps__classes": deflated(bytes([3, 3, 3]))}, "beyond the last item"),
}


@pytest.mark.parametrize(("changes", "message"), TENSORS.values(), ids=TENSORS)
def test_forged_tensors_are_malformed(changes: dict[str, np.ndarray | None], message: str):
    with little_memory(), pytest.raises(MalformedFileError, match=message):
        artifact.decode(with_tensors(**changes))


CODES_METADATA: dict[str, tuple[Callable[[Json], object], str]] = {
    "another codec": (lambda m: index(m).update(codes="huffman"), "must be one of planes, defla"),
    "no codec": (lambda m: index(m).pop("codes"), "must be one of planes, deflated"),
    "no stream": (lambda m: index(m).update(codes="deflated"), "codes is not a zlib stream"),
    "no planes": (lambda m: index(m, 1).update(codes="planes"), r"shape \[\d+\], not \[19\]"),
    "another kind": (lambda m: index(m).update(kind="modulo"), "what the tensor embedding.0.codes"),
    "a later kind": (
        lambda m: index(m).update(kind="learned"),
        "kind must be one of ident",
    ),
    "no rows": (lambda m: index(m).update(size=0), "size must be an integer from 1"),
    "one row": (lambda m: index(m).update(size=1), r"shape \[38\], not \[0\]"),
    "fewer rows": (lambda m: index(m).update(size=2), r"shape \[38\], not \[19\]"),
    "rows not there": (lambda m: index(m).update(size=4), "leads to row 3 of a table with 3"),
    "many rows": (lambda m: index(m).update(size=2**31 - 1), r"shape \[38\], not \[589\]"),
    "rows beyond int32": (lambda m: index(m).update(size=2**31), "size must be an integer"),
    "a large claim": (lambda m: index(m, 1).update(size=2**31 - 1), "no more than 16 times"),
    "many items": (lambda m: m.update(items=2**20), r"shape \[38\], not \[262145\]"),
    "fewer items": (lambda m: m.update(items=100), r"shape \[38\], not \[26\]"),
    "an order for hashes": (lambda m: m.update(order="lehmer"), "the tensor order is missing"),
}


def index(metadata: Json, number: int = 0) -> Json:
    return table(metadata, number)["index"]


@pytest.mark.parametrize(("change", "message"), CODES_METADATA.values(), ids=CODES_METADATA)
def test_forged_metadata_of_codes_are_malformed(change: Callable[[Json], object], message: str):
    with little_memory(), pytest.raises(MalformedFileError, match=message):
        artifact.decode(with_metadata(change, CODED))


CODES_TENSORS: dict[str, tuple[dict[str, np.ndarray | None], str]] = {
    "missing": ({"embedding__0__codes": None}, "embedding.0.codes is missing"),
    "too short": ({"embedding__0__codes": np.zeros(37, np.uint8)}, r"shape \[37\], not \[38\]"),
    "too long": ({"embedding__0__codes": np.zeros(39, np.uint8)}, r"shape \[39\], not \[38\]"),
    "square": ({"embedding__0__codes": np.zeros((2, 19), np.uint8)}, r"shape \[2, 19\]"),
    "floats": ({"embedding__0__codes": np.zeros(38, np.float16)}, "holds float16, not uint8"),
    "out of range": (
        {"embedding__0__codes": np.full(38, 255, np.uint8)},
        "entities one of 3 rows",
    ),
    "bomb": ({"embedding__1__codes": deflated(bytes(10**8))}, "does not hold the 19 bytes"),
    "short stream": ({"embedding__1__codes": deflated(bytes(18))}, "does not hold the 19 bytes"),
    "cut stream": ({"embedding__1__codes": deflated(bytes(19))[:-2]}, "does not hold the 19 bytes"),
    "more behind": (
        {"embedding__1__codes": np.append(deflated(bytes(19)), np.uint8(0))},
        "does not hold the 19 bytes",
    ),
    "codes of no table": (
        {"embedding__2__codes": np.zeros(3, np.uint8)},
        "2.codes is for",
    ),
}


@pytest.mark.parametrize(("changes", "message"), CODES_TENSORS.values(), ids=CODES_TENSORS)
def test_forged_codes_are_malformed(changes: dict[str, np.ndarray | None], message: str):
    with little_memory(), pytest.raises(MalformedFileError, match=message):
        artifact.decode(with_tensors(CODED, **changes))


def test_a_reader_without_codes_refuses_them_by_name(monkeypatch: pytest.MonkeyPatch):
    known = ("identity", "modulo", "quotient", "scaled", "hashed")  # those of 0.1
    monkeypatch.setattr("cerp.artifact.embedding.INDEX_KINDS", known)
    with pytest.raises(MalformedFileError, match=r"must be one of .*hashed, got 'coded'"):
        artifact.decode(CODED)


def test_codes_of_one_row_take_no_bytes():
    one_row = ComposedEmbedding(
        (Table(Index("coded", 1, codes=np.zeros(65, np.int32)), np.ones((1, 2), np.float32)),)
    )
    data = artifact.encode(replace(coded_model(), embedding=one_row), Encoding())
    assert "codes" not in {name for name, size in artifact.section_bytes(data).items() if size}
    found = artifact.decode(data)
    assert found.embedding.vectors(np.array([0, 64]), 65).tolist() == [[1, 1], [1, 1]]


def test_tables_without_codes_to_read_claim_no_memory():
    header = parts(CODED)[0]
    metadata = json.loads(header["__metadata__"]["cerp"])
    one_row = {"columns": 1, "positions": "bitmap", "rows": 1, "stored": 0, "values": "fp32"}
    one_row["index"] = {"codes": "planes", "factor": 0, "kind": "coded", "offset": 0, "size": 1}
    metadata["embedding"]["tables"] = [one_row] * 500
    metadata["items"], metadata["ids"]["users"] = 10**6, {"kind": "range"}
    tensors = {f"embedding.{n}.codes": np.zeros(0, np.uint8) for n in range(500)}
    tensors |= {f"embedding.{n}.values": np.zeros(0, np.float32) for n in range(500)}
    tensors |= {f"embedding.{n}.positions.bitmap": deflated(b"\0") for n in range(500)}
    text = json.dumps(metadata, sort_keys=True, separators=(",", ":"))
    forged = with_right_checksum(save(tensors, {"cerp": text}))
    with little_memory():  # codes of 4 bytes for each entity would be 2 GB
        assert len(artifact.decode(forged).embedding.tables) == 500


def test_ids_that_add_up_to_more_than_64_bits_are_refused():
    extra = np.full(3 * 60 // 8 + 1, 255, np.uint8)
    forged = with_tensors(items__ids__classes=deflated(bytes([243] * 3)), items__ids__extra=extra)
    with pytest.raises(MalformedFileError, match="too large"):
        artifact.decode(forged)


CASES = 750


@pytest.mark.parametrize("backbone", [*BACKBONES, "coded"])
def test_whatever_a_forged_file_holds_it_is_a_model_or_a_named_error(backbone: str):
    rng = random.Random(backbone)
    model = coded_model() if backbone == "coded" else small_model(backbone)
    files = [artifact.encode(model, Encoding(v)) for v in ("fp32", "int8", "int4")]
    files += [CODED] * (backbone == "coded")
    refused = 0
    with little_memory():
        for _ in range(CASES):
            try:
                look_up_first_and_last(artifact.decode(forged(rng.choice(files), rng)))
            except FileFormatError:
                refused += 1
    # Most changes break something; the others touch values, facts or ids, and are another model.
    assert CASES * 0.5 < refused < CASES


def look_up_first_and_last(model: ShippedModel) -> None:
    count = len(model.users) + len(model.items)
    if count and isinstance(model.embedding, ComposedEmbedding):
        model.embedding.vectors(np.array([0, count - 1]), count)


def test_what_opens_here_opens_in_the_safetensors_library():
    rng = random.Random(0)
    data = artifact.encode(small_model("mf"), Encoding("int8"))
    for _ in range(1_000):
        file = forged(data, rng)
        try:
            content = unpack(file)
        except FileFormatError:
            continue
        assert content.tensors.keys() == {name for name, _ in safetensors.deserialize(file)}
