"""Files for lookups: vectors by id, and no recommender."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cerp
from cerp import artifact
from cerp.artifact import Encoding, Projection, Seen, ShippedModel
from cerp.artifact.container import pack, unpack
from cerp.data.ids import Ids
from cerp.errors import ConfigError, MalformedFileError
from golden_lookup import ENCODING, GOLDEN_LOOKUP, VECTORS, golden_lookup
from golden_model import golden_model
from plain_decoder import metadata_of


def test_the_golden_file_is_made_and_read_to_the_byte():
    assert artifact.encode(golden_lookup(), ENCODING) == GOLDEN_LOOKUP.read_bytes()
    found = cerp.load(GOLDEN_LOOKUP)
    assert isinstance(found, cerp.Lookup)
    assert np.array_equal(found.vectors(), VECTORS)
    assert np.array_equal(found.vectors(["three", "one"]), VECTORS[[2, 0]])
    assert found.nearest("one", 1)[0].id == "three"
    assert found.dim == 3
    assert repr(found).startswith("Lookup: 3 vectors of 3 numbers in ")


def test_the_projection_is_a_section_that_a_budget_counts():
    sections = artifact.section_bytes(GOLDEN_LOOKUP.read_bytes())
    assert sections["projection"] == 2 * 6 + 4 * 3
    assert sum(sections.values()) == GOLDEN_LOOKUP.stat().st_size
    assert artifact.embedding_bytes(sections) > sections["projection"]


def test_a_file_for_recommending_has_no_projection():
    model = replace(golden_model(), projection=golden_lookup().projection)
    with pytest.raises(ConfigError, match="only those for lookups may have"):
        artifact.encode(model, Encoding())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"users": Ids.range(2)}, "2 users"),
        ({"items": Ids.range(0)}, "0 ids"),
        ({"titles": ["a", "b", "c"]}, "only recommending needs"),
        ({"seen": Seen(np.array([0]), np.zeros(0, dtype=np.int32))}, "only recommending needs"),
        ({"layers": 2}, "only recommending needs"),
        ({"weights": {"first.bias": np.zeros(1, dtype=np.float32)}}, "only recommending needs"),
        ({"projection": Projection(np.eye(3, dtype=np.float32), np.zeros(3, np.float32), 1.0)},
         "shape"),
        ({"positions": np.array([1, 0, 2], dtype=np.int32)}, "only recommending needs"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_not_written(change: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        artifact.encode(replace(golden_lookup(), **change), ENCODING)


def forged(change: Callable[[Any], object]) -> bytes:
    """The golden file with changed metadata and a checksum that fits."""
    data = GOLDEN_LOOKUP.read_bytes()
    metadata = metadata_of(data)
    for key in ("crc32", "format"):
        metadata.pop(key)
    change(metadata)
    return pack(metadata, dict(unpack(data).tensors))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda meta: meta["projection"].update(inputs=3), "projection.matrix has the shape"),
        (lambda meta: meta["projection"].update(inputs=0), "projection.inputs"),
        (lambda meta: meta["projection"].update(outputs=6, inputs=1), "projection.mean"),
        (lambda meta: meta["projection"].update(scale=0), "projection.scale"),
        (lambda meta: meta["projection"].update(scale=float("1e300")), "projection.scale"),
        (lambda meta: meta.pop("projection"), "nothing says what the tensor projection"),
        (lambda meta: meta.update(users=1), "users"),
        (lambda meta: meta.update(backbone="mf"), "projection"),
        (lambda meta: meta.update(embedding=None), "nothing says"),
    ],
)
def test_a_forged_file_is_refused(change: Callable[[Any], object], message: str):
    with pytest.raises(MalformedFileError, match=message):
        artifact.decode(forged(change))


def test_an_unforged_copy_is_read():
    assert artifact.decode(forged(lambda meta: None)).is_lookup


@pytest.mark.parametrize("values", ["fp32", "fp16", "int8", "int4"])
def test_every_precision_comes_back(values: Any):
    model: ShippedModel = golden_lookup()
    read = cerp.Lookup(artifact.decode(artifact.encode(model, Encoding(values))))
    np.testing.assert_allclose(read.vectors(), VECTORS, atol=0 if values != "int4" else 30)


def test_recommending_is_refused_and_looking_up_in_a_recommender_too():
    with pytest.raises(ConfigError, match="no recommender"):
        cerp.Runtime(golden_lookup())
    with pytest.raises(ConfigError, match="holds a recommender"):
        cerp.Lookup(golden_model())
