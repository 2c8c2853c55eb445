"""Files for lookups in several fields, each with ids of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cerp
from cerp import artifact
from cerp.artifact import ComposedEmbedding, Encoding, Index, LookupField, ShippedModel
from cerp.artifact.container import pack, unpack
from cerp.data.ids import Ids
from cerp.errors import ConfigError, DataError, MalformedFileError
from golden_fields import ENCODING, GOLDEN_FIELDS, VECTORS, golden_fields
from golden_lookup import golden_lookup
from golden_model import golden_model
from plain_decoder import metadata_of
from small_models import pruned


def test_the_golden_file_is_made_and_read_to_the_byte():
    assert artifact.encode(golden_fields(), ENCODING) == GOLDEN_FIELDS.read_bytes()
    found = cerp.load(GOLDEN_FIELDS)
    assert isinstance(found, cerp.FieldLookups)
    for name, vectors in VECTORS.items():
        assert np.array_equal(found[name].vectors(), vectors)
    assert found.vectors().keys() == VECTORS.keys()
    assert list(found) == ["user", "country", "item"]
    assert (len(found), found.dim, len(found["item"])) == (3, 2, 3)
    assert repr(found).startswith("FieldLookups: user (2), country (2), item (3); vectors of 2")


def test_each_field_has_ids_of_its_own():
    found = cerp.load(GOLDEN_FIELDS)
    assert isinstance(found, cerp.FieldLookups)
    asked = found.vectors({"country": ["ch"], "user": [500, 10]})
    assert np.array_equal(asked["country"], VECTORS["country"][[1]])
    assert np.array_equal(asked["user"], VECTORS["user"][[1, 0]])
    assert found["user"].nearest(10, 5)[0].id == 500
    assert found["country"].nearest("at")[0].id == "ch"
    assert "user" in found
    with pytest.raises(DataError, match="no field 'users'; there are user, country, item"):
        found.vectors({"users": [10]})
    with pytest.raises(DataError):
        found["item"].vectors([3])


def test_every_byte_is_in_a_section():
    sections = artifact.section_bytes(GOLDEN_FIELDS.read_bytes())
    assert sum(sections.values()) == GOLDEN_FIELDS.stat().st_size
    assert sections["codebook values"] == 4 + 4 + 4
    assert sections["scales"] == 3 * 2 * 2
    assert sections["ids"] > 0


def test_ids_that_are_left_out_are_numbers():
    read = artifact.decode(artifact.encode(golden_fields(), Encoding(ids=False)))
    assert cerp.FieldLookups(read)["country"].ids.is_range


def three_books(*sizes: int) -> ShippedModel:
    """The golden fields with books of so many rows, half of their values pruned."""
    rng = np.random.default_rng(0)
    return replace(
        golden_fields(),
        fields=tuple(field for field in golden_fields().fields or () if field.table is None),
        embedding=ComposedEmbedding(
            tuple(
                pruned(rng, Index("coded", size, codes=rng.integers(0, size, 5, np.int32)), size, 2)
                for size in sizes
            )
        ),
    )


@pytest.mark.parametrize(("sizes", "entries"), [((4, 4, 4), 1), ((4, 3, 4), 3), ((1, 1, 1), 3)])
def test_books_that_are_alike_are_described_once(sizes: tuple[int, ...], entries: int):
    model = three_books(*sizes)
    file = artifact.encode(model, Encoding("fp32"))
    assert len(metadata_of(file)["embedding"]["tables"]) == entries
    read = artifact.decode(file)
    assert isinstance(read.embedding, ComposedEmbedding)
    assert isinstance(model.embedding, ComposedEmbedding)
    for found, wanted in zip(read.embedding.tables, model.embedding.tables, strict=True):
        assert np.array_equal(found.weight, wanted.weight)
        assert np.array_equal(found.stored, wanted.stored)
        assert np.array_equal(found.index.codes, wanted.index.codes)
        assert found.index == wanted.index


def test_a_header_does_not_grow_with_books():
    few, many = (
        artifact.section_bytes(artifact.encode(three_books(*[4] * books), ENCODING))["header"]
        for books in (2, 40)
    )
    assert many - few < 40


def test_books_with_entries_of_their_own_are_still_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("cerp.artifact.embedding.stacked", lambda tables: None)
    apart = artifact.encode(golden_fields(), ENCODING)
    assert len(metadata_of(apart)["embedding"]["tables"]) == 2
    for name, vectors in cerp.FieldLookups(artifact.decode(apart)).items():
        assert np.array_equal(vectors.vectors(), VECTORS[name])


@pytest.mark.parametrize("values", ["fp32", "fp16", "int8", "int4"])
def test_every_precision_comes_back(values: Any):
    read = artifact.decode(artifact.encode(golden_fields(), Encoding(values)))
    assert read.fields is not None
    assert {field.values for field in read.fields if field.table is not None} == {values}
    for name, vectors in cerp.FieldLookups(read).items():
        np.testing.assert_allclose(vectors.vectors(), VECTORS[name], atol=1)


def _with(number: int, **change: Any) -> dict[str, Any]:
    fields = golden_fields().fields
    assert fields is not None
    changed = list(fields)
    changed[number] = replace(changed[number], **change)
    return {"fields": tuple(changed)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_with(0, name="item"), "two fields have one name"),
        (_with(0, ids=Ids.range(3)), "6 ids in shared tables"),
        (_with(1, ids=Ids.range(3)), "has the shape"),
        (_with(1, table=np.full((2, 2), np.nan, dtype=np.float32)), "NaN"),
        ({"items": golden_lookup().items}, "each field has ids of its own"),
        ({"projection": golden_lookup().projection}, "projection"),
        ({"fields": ()}, "0 ids in shared tables"),
    ],
)
def test_what_does_not_fit_together_is_not_written(change: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        artifact.encode(replace(golden_fields(), **change), ENCODING)


def test_a_recommender_has_no_fields():
    model = replace(golden_model(), fields=(LookupField("user", Ids.range(2)),))
    with pytest.raises(ConfigError, match="only files for lookups may have"):
        artifact.encode(model, Encoding())


def forged(change: Callable[[Any], object]) -> bytes:
    """The golden file with changed metadata and a checksum that fits."""
    data = GOLDEN_FIELDS.read_bytes()
    metadata = metadata_of(data)
    for key in ("crc32", "format"):
        metadata.pop(key)
    change(metadata)
    return pack(metadata, dict(unpack(data).tensors))


def _field(number: int, **change: Any) -> Callable[[Any], object]:
    return lambda meta: meta["fields"]["list"][number].update(change)


def _books(**change: Any) -> Callable[[Any], object]:
    return lambda meta: meta["embedding"]["tables"][0].update(change)


SIZE_1 = {"kind": "coded", "size": 1, "factor": 0, "offset": 0, "codes": "planes"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_field(0, count=3), "6 ids in shared tables"),
        (_field(0, count=2**31 - 1), "ids in shared tables"),
        (_field(0, count=0), "fields.list.0..count"),
        (_field(0, count=2.0), "fields.list.0..count"),
        (_field(0, name=7), "fields.list.0..name"),
        (_field(0, name="item"), "two fields have one name"),
        (_field(0, ids={"kind": "words"}), "kind"),
        (_field(0, ids={"kind": "range"}), "nothing says what the tensor fields.0.ids"),
        (_field(1, count=2**31 - 1), "claims 2,147,483,647 vectors"),
        (_field(1, count=3), "fields.1"),
        (_field(1, columns=3), "fields.1"),
        (_field(1, columns=1, count=4), "fields.1"),
        (_field(1, values="int2"), "values"),
        (_field(1, values=None), "ids in shared tables"),
        (_books(books=1), "books"),
        (_books(books=2.0), "books"),
        (_books(books=3), "embedding"),
        (_books(books=2**16), "books"),
        (_books(books=2**16 - 1), "codes|cells"),
        (_books(books=None), "stored must be"),
        (_books(index={"kind": "modulo", "size": 2, "factor": 0, "offset": 0}), "no codes"),
        (_books(index=SIZE_1), "size"),
        (lambda meta: meta["fields"].update(list={}), "is not a list"),
        (lambda meta: meta["fields"].update(list=[]), "0 ids in shared tables"),
        (lambda meta: meta.update(fields=[]), "not an object"),
        (lambda meta: meta.pop("fields"), "nothing says what the tensor fields"),
        (lambda meta: meta.update(backbone="mf"), "fields"),
    ],
)
def test_a_forged_file_is_refused(change: Callable[[Any], object], message: str):
    with pytest.raises(MalformedFileError, match=message):
        artifact.decode(forged(change))


def test_an_unforged_copy_is_read():
    assert artifact.decode(forged(lambda meta: None)).fields is not None


def test_fields_are_asked_for_by_name_alone():
    with pytest.raises(ConfigError, match="several fields"):
        cerp.Lookup(golden_fields())
    with pytest.raises(ConfigError, match="no fields"):
        cerp.FieldLookups(golden_lookup())
