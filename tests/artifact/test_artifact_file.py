"""Whole .cerp files: what is written is what is read, to the byte."""

from __future__ import annotations

import math
import re
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load

from cerp import artifact
from cerp.artifact import (
    ComposedEmbedding,
    Encoding,
    Index,
    PropagatedTables,
    Seen,
    ShippedModel,
    Table,
    embedding_bytes,
    order_bytes,
    section_bytes,
    table_bytes,
)
from cerp.artifact.codes import encode_codes
from cerp.choices import ValuePrecision
from cerp.data.ids import Ids
from cerp.errors import ConfigError
from golden_model import ENCODING, GOLDEN, GOLDEN_CODED, golden_coded_model, golden_model
from plain_decoder import decode_plainly, metadata_of
from small_models import BACKBONES, coded, coded_model, small_model

VALUES = ("fp32", "fp16", "int8", "int4")
FP32 = Encoding("fp32")


def vectors(model: ShippedModel) -> np.ndarray:
    """Vectors of all entities by code."""
    count = len(model.users) + len(model.items)
    if isinstance(model.embedding, PropagatedTables):
        return np.concatenate([model.embedding.users, model.embedding.items])
    positions = np.arange(count) if model.positions is None else model.positions
    return model.embedding.vectors(positions, count)


def stored_places(table: Table) -> np.ndarray:
    return np.ones(table.weight.shape, dtype=bool) if table.mask is None else table.mask


def pairs(seen: Seen) -> set[tuple[int, int]]:
    users = np.repeat(np.arange(len(seen.offsets) - 1), np.diff(seen.offsets))
    return set(zip(users.tolist(), seen.items.tolist(), strict=True))


def some_table(rng: np.random.Generator, index: Index, rows: int, columns: int) -> Table:
    """Values at random places, at the front of each row, or everywhere."""
    kept = (
        rng.random((rows, columns)) < rng.choice([0, 0.1, 0.5, 1]),
        np.arange(columns) < rng.integers(0, columns + 1, (rows, 1)),
    )[rng.integers(2)]
    weight = np.where(kept, rng.standard_normal((rows, columns)), 0).astype(np.float32)
    return Table(index, weight, None if kept.all() else kept)


def some_ids(rng: np.random.Generator, count: int) -> Ids:
    return (
        Ids.range(count),
        Ids(np.sort(rng.choice(10**9, count, replace=False))),
        Ids(np.array([f"{number} é\n" for number in rng.permutation(count)], dtype=object)),
    )[rng.integers(3)]


def some_model(seed: int) -> ShippedModel:
    """Any kind of ids, order, tables, combination and index."""
    rng = np.random.default_rng(seed)
    users, items = rng.integers(1, 12, 2).tolist()
    count, size, width = users + items, int(rng.integers(1, 9)), int(rng.integers(1, 6))
    indices = [
        (Index("identity"), count),
        (Index("modulo", size), size),
        (Index("quotient", size), count // size + 1),
        (Index("scaled", size), size),
        (Index("hashed", size, int(rng.integers(2**21)), int(rng.integers(2**31 - 1))), size),
        (coded(rng, size, count), size + int(rng.integers(2))),
    ]
    chosen = [indices[number] for number in rng.integers(0, 6, rng.integers(1, 4))]
    dense = rng.random((users, items)) < 0.3
    return ShippedModel(
        facts={"seed": seed, "metrics": {"ndcg@10": 0.125}},
        users=some_ids(rng, users),
        items=some_ids(rng, items),
        head="dot",
        embedding=ComposedEmbedding(
            tuple(some_table(rng, index, rows, width) for index, rows in chosen),
            ("sum", "product", "concat")[rng.integers(3)],
        ),
        positions=(None, rng.permutation(count).astype(np.int32))[rng.integers(2)],
        seen=Seen(np.append(0, dense.sum(axis=1).cumsum()), np.nonzero(dense)[1].astype(np.int32)),
        titles=(None, ["", "\u2028", '"\\'][:items] + ["t"] * max(0, items - 3))[rng.integers(2)],
    )


@given(st.integers(0, 2**32))
@settings(max_examples=150)
def test_a_model_comes_back_whole(seed: int):
    model = some_model(seed)
    found = artifact.decode(artifact.encode(model, FP32))
    np.testing.assert_array_equal(vectors(found), vectors(model))
    assert (found.users, found.items) == (model.users, model.items)
    assert (found.titles, found.facts) == (model.titles, model.facts)
    assert found.seen is not None
    assert pairs(found.seen) == pairs(model.seen)
    for table, read_back in zip(model.embedding.tables, found.embedding.tables, strict=True):
        np.testing.assert_array_equal(stored_places(read_back), stored_places(table))


@given(st.integers(0, 2**32), st.sampled_from(VALUES))
@settings(max_examples=100)
def test_a_reader_written_from_the_document_finds_the_same(seed: int, values: str):
    data = artifact.encode(some_model(seed), Encoding(values))
    model, plain = artifact.decode(data), decode_plainly(data)
    np.testing.assert_array_equal(vectors(model), plain["vectors"])
    assert model.users.values.tolist() == plain["users"]
    assert model.items.values.tolist() == plain["items"]
    assert model.titles == plain["titles"]
    assert pairs(model.seen) == plain["seen"]


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_backbone_comes_back_in_every_precision(backbone: str, values: str):
    model = small_model(backbone)
    data = artifact.encode(model, Encoding(values))
    found = artifact.decode(data)
    np.testing.assert_array_equal(vectors(found), decode_plainly(data)["vectors"])
    assert (found.head, found.layers) == (model.head, model.layers)
    assert found.weights.keys() == model.weights.keys()
    for name, weight in model.weights.items():
        kept = weight if values == "fp32" else weight.astype(np.float16)
        np.testing.assert_array_equal(found.weights[name], kept)


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("books", [2, 4])
def test_learned_codes_come_back_in_every_precision(books: int, values: ValuePrecision):
    model = coded_model(books=books)
    data = artifact.encode(model, Encoding(values))
    found = artifact.decode(data)
    np.testing.assert_array_equal(vectors(found), decode_plainly(data)["vectors"])
    for table, read_back in zip(model.embedding.tables, found.embedding.tables, strict=True):
        assert read_back.index == table.index
        np.testing.assert_array_equal(read_back.index.codes, table.index.codes)
    # 65 entities, 4 bits to tell 9 rows apart
    assert section_bytes(data)["codes"] == books * math.ceil(65 * 4 / 8)
    assert "order" not in section_bytes(data)


@pytest.mark.parametrize("values", artifact.VALUES_CODECS)
@pytest.mark.parametrize("backbone", BACKBONES)
def test_the_vectors_of_a_file_can_be_had_without_the_rest(backbone: str, values: str):
    data = artifact.encode(small_model(backbone), Encoding(values))
    whole, part = artifact.decode(data), artifact.decode_vectors(data)
    assert {name: array.tolist() for name, array in part.weights.items()} == {
        name: array.tolist() for name, array in whole.weights.items()
    }
    np.testing.assert_array_equal(vectors(replace(whole, embedding=part.embedding)), vectors(whole))


def test_codes_are_deflated_where_that_is_smaller():
    runs = np.repeat(np.arange(4, dtype=np.int32), 64)
    mixed = np.array([pow(3, k, 257) % 4 for k in range(64)], dtype=np.int32)
    assert encode_codes(runs, 4)[0] == "deflated"
    kind, tensors = encode_codes(mixed, 4)
    assert kind == "planes"
    assert tensors["codes"].nbytes == 64 * 2 // 8


@given(st.integers(0, 2**32), st.sampled_from(VALUES))
@settings(max_examples=50)
def test_the_same_model_makes_the_same_bytes_also_after_a_round_trip(seed: int, values: str):
    data = artifact.encode(some_model(seed), Encoding(values))
    assert artifact.encode(some_model(seed), Encoding(values)) == data
    if values in ("fp32", "fp16"):  # a scale is searched anew for values that were rounded
        assert artifact.encode(artifact.decode(data), Encoding(values)) == data


@pytest.mark.parametrize(
    ("path", "model"), [(GOLDEN, golden_model()), (GOLDEN_CODED, golden_coded_model())]
)
def test_the_golden_files_are_made_and_read_to_the_byte(path: Path, model: ShippedModel):
    data = path.read_bytes()
    assert artifact.encode(model, ENCODING) == data
    # The values were chosen so that four bits hold them exactly.
    np.testing.assert_array_equal(vectors(artifact.decode(data)), vectors(model))
    np.testing.assert_array_equal(vectors(model), decode_plainly(data)["vectors"])
    assert artifact.encode(artifact.decode(data), ENCODING) == data


def test_the_golden_file_of_codes_has_both_kinds_of_them():
    tables = metadata_of(GOLDEN_CODED.read_bytes())["embedding"]["tables"]
    assert [table["index"]["codes"] for table in tables] == ["planes", "deflated"]
    tensors = load(GOLDEN_CODED.read_bytes())
    # Two planes of 152 bits; the codes are 3^k mod 257 mod 3, that is 1 0 0 0 0 0 2 2 ...
    assert tensors["embedding.0.codes"].shape == (38,)
    assert tensors["embedding.0.codes"][[0, 19]].tolist() == [0b0000_0001, 0b1100_0000]
    # One plane of 76 zeros and 76 ones.
    plane = zlib.decompress(tensors["embedding.1.codes"].tobytes())
    assert plane == bytes(9) + b"\xf0" + b"\xff" * 9


def test_the_document_shows_the_bytes_of_the_golden_file():
    text = (GOLDEN.parents[2] / "docs" / "format.md").read_text(encoding="utf-8")
    shown = re.findall(r"^([0-9a-f]{4}): ((?:[0-9a-f]{2} +)+)", text, flags=re.MULTILINE)
    assert len(shown) >= 15
    for place, digits in shown:
        expected = bytes.fromhex(digits)
        begin = int(place, 16)
        assert GOLDEN.read_bytes()[begin : begin + len(expected)] == expected


def test_the_golden_file_opens_in_any_reader_of_safetensors():
    tensors = load(GOLDEN.read_bytes())
    assert tensors["embedding.0.scales"].tolist() == [1, 0, 0.5]
    # 7, -3, 1 of the first row, 7 halves of the third, in half bytes.
    assert tensors["embedding.0.values"].tolist() == [7 | 13 << 4, 1 | 7 << 4]


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("values", VALUES)
def test_the_sections_add_up_to_the_file(backbone: str, values: str):
    data = artifact.encode(small_model(backbone), Encoding(values))
    assert sum(section_bytes(data).values()) == len(data)


@given(st.integers(0, 2**32), st.sampled_from(VALUES))
@settings(max_examples=50)
def test_the_bytes_of_an_embedding_are_known_before_it_is_written(
    seed: int, values: ValuePrecision
):
    model = some_model(seed)
    sizes = [table_bytes(stored_places(t))[values] for t in model.embedding.tables]
    expected = sum(sizes)
    for index in (table.index for table in model.embedding.tables):
        if index.codes is not None:  # so short that deflating them gains nothing
            expected += math.ceil(len(index.codes) * (index.size - 1).bit_length() / 8)
    if model.positions is not None:
        expected += order_bytes(len(model.positions))
    assert embedding_bytes(section_bytes(artifact.encode(model, Encoding(values)))) == expected


def test_interactions_are_a_graph_where_serving_needs_them_and_else_seen_items():
    sections = {name: section_bytes(artifact.encode(small_model(name), FP32)) for name in BACKBONES}
    assert "graph" in sections["lightgcn"]
    assert "seen" not in sections["lightgcn"]
    for name in ("mf", "mlp", "propagated"):
        assert "seen" in sections[name]
        assert "graph" not in sections[name]
    assert "order" not in sections["propagated"]  # which only the interactions use


def test_what_the_encoding_leaves_out_is_gone():
    bare = Encoding("fp32", seen=False, ids=False, titles=False)
    data = artifact.encode(small_model("mf"), bare)
    found = artifact.decode(data)
    assert found.users.is_range
    assert found.items.is_range
    assert found.seen is None
    assert found.titles is None
    assert not {"seen", "ids", "titles"} & section_bytes(data).keys()


def test_propagated_tables_without_interactions_need_no_order():
    data = artifact.encode(small_model("propagated"), Encoding("int8", seen=False))
    assert artifact.decode(data).positions is None
    np.testing.assert_array_equal(
        vectors(artifact.decode(data)),
        vectors(artifact.decode(artifact.encode(small_model("propagated"), Encoding("int8")))),
    )


def test_a_file_is_written_whole_and_read_back(tmp_path):
    path = tmp_path / "model.cerp"
    assert artifact.write(path, golden_model(), ENCODING) == path.stat().st_size
    assert [file.name for file in tmp_path.iterdir()] == ["model.cerp"]
    np.testing.assert_array_equal(vectors(artifact.read(path)), vectors(golden_model()))


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "model.cerp").mkdir()
    with pytest.raises(ConfigError, match="cannot write"):
        artifact.write(tmp_path / "model.cerp", golden_model(), ENCODING)
    assert [file.name for file in tmp_path.iterdir()] == ["model.cerp"]


def flawed(of: str = "mf", **changes: object) -> ShippedModel:
    return replace(small_model(of), **changes)


def unlearned() -> dict[str, np.ndarray]:
    weights = small_model("mlp").weights
    return weights | {"first.bias": np.full_like(weights["first.bias"], np.inf)}


def with_table(index: Index, weight: np.ndarray, mask: np.ndarray | None = None) -> ShippedModel:
    return flawed(embedding=ComposedEmbedding((Table(index, weight.astype(np.float32), mask),)))


def with_codes(codes: np.ndarray) -> ShippedModel:
    return with_table(Index("coded", 9, codes=codes.astype(np.int32)), np.ones((9, 2)))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (flawed(positions=np.zeros(65, np.int32)), "positions are not those of 65 entities"),
        (flawed(titles=["one"]), "1 titles for 40 items"),
        (flawed(of="lightgcn", seen=None), "propagation needs its graph"),
        (flawed(of="lightgcn", layers=65), "has 65 layers; 1 to 64 are possible"),
        (flawed(layers=-1), "has -1 layers"),
        (flawed(of="mlp", layers=3), "no word for the head 'tower' after 3 layers"),
        (flawed(of="propagated", head="tower"), "propagated tables are scored by a dot product"),
        (flawed(weights=unlearned()), "scores by dot products has weights of a tower"),
        (flawed(of="mlp", weights={}), "weights of the tower are missing"),
        (flawed(of="mlp", weights=unlearned()), "weights of the tower hold NaN or infinity"),
        (flawed(facts={"ndcg@10": float("nan")}), "facts of the model cannot be written as JSON"),
        (flawed(facts={"log": "x" * 2**20}), "leave something out of the facts"),
        (with_table(Index("modulo", 9), np.ones((8, 2))), "leads to row 8 of a table with 8"),
        (with_table(Index("coded", 9), np.ones((9, 2))), "index coded of a table has codes, or la"),
        (with_codes(np.full(65, 9)), "do not give 65 entities one of 9 rows"),
        (with_codes(np.full(65, -1)), "do not give 65 entities one of 9 rows"),
        (with_codes(np.zeros(64)), "do not give 65 entities one of 9 rows"),
        (with_table(Index("identity"), np.full((65, 1), np.nan)), "NaN or infinity"),
        (
            with_table(Index("identity"), np.ones((65, 1)), np.zeros((65, 1), bool)),
            "values where its mask says that none are stored",
        ),
        (
            with_table(Index("identity"), np.zeros((2**16, 100)), np.zeros((2**16, 100), bool)),
            "0 stored values of 6,553,600 are too few",
        ),
        (
            flawed(seen=Seen(np.r_[0, np.full(25, 2)], np.array([3, 3], np.int32))),
            "items of a user are not ascending",
        ),
    ],
)
def test_a_model_that_contradicts_itself_is_not_written(model: ShippedModel, message: str):
    with pytest.raises(ConfigError, match=message):
        artifact.encode(model, FP32)


def test_an_unknown_codec_is_refused_with_those_there_are():
    with pytest.raises(ConfigError, match="choose one of fp32, fp16, int8, int4"):
        Encoding("int2")
