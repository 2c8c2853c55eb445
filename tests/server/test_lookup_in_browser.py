"""Files for lookups in the page's runtime: the vectors and neighbours that Python finds."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cerp
from campaigns.browser import PageRuntime
from cerp.artifact import (
    ComposedEmbedding,
    Encoding,
    Index,
    LookupField,
    Projection,
    ShippedModel,
    Table,
    decode,
    encode,
)
from cerp.data.ids import Ids
from golden_fields import GOLDEN_FIELDS
from golden_lookup import GOLDEN_LOOKUP, golden_lookup
from small_models import pruned

ASK = """async ([file, maxMemory]) => {
  const { load } = await import("/load.js");
  const bytes = Uint8Array.from(atob(file), (c) => c.charCodeAt(0)).buffer;
  const loaded = await load(bytes, { maxMemory });
  const fields = loaded instanceof Map ? loaded : new Map([["", loaded]]);
  return Array.from(fields, ([name, lookup]) => ({
    name,
    dim: lookup.dim,
    ids: lookup.ids,
    vectors: lookup.vectors().map((vector) => Array.from(vector)),
    reversed: lookup.vectors(lookup.ids.toReversed()).map((vector) => Array.from(vector)),
    nearest: lookup.ids.map((id) =>
      lookup.nearest(id, 7).map(({ id, similarity }) => [id, similarity])),
  }));
}"""
SCRIPT = """async ([file, script]) => {
  const { load } = await import("/load.js");
  const lookup = await load(Uint8Array.from(atob(file), (c) => c.charCodeAt(0)).buffer);
  return new Function("lookup", `return ${script}`)(lookup);
}"""


@pytest.fixture(scope="module")
def evaluate(browser) -> Iterator[Callable[..., Any]]:
    page = browser.new_page()
    PageRuntime(page)
    yield page.evaluate
    page.close()


@pytest.fixture
def finds_alike(evaluate) -> Callable[[bytes], None]:
    """Asserts that JavaScript and Python make the same of a file: vectors, nearest, order."""

    def check(file: bytes) -> None:
        model = decode(file)
        fields = {"": cerp.Lookup(model)} if model.fields is None else cerp.FieldLookups(model)
        found = {field.pop("name"): field for field in evaluate(ASK, [as_text(file), 2**31])}
        assert list(found) == list(fields)
        for name, lookup in fields.items():
            ids = lookup.ids.values.tolist()
            assert found[name] == {
                "dim": lookup.dim,
                "ids": [str(one) for one in ids],
                "vectors": lookup.vectors().tolist(),
                "reversed": lookup.vectors(ids[::-1]).tolist(),
                "nearest": [
                    [[str(near.id), near.similarity] for near in lookup.nearest(one, 7)]
                    for one in ids
                ],
            }

    return check


def as_text(file: bytes) -> str:
    return base64.b64encode(file).decode()


def normal(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def lookup_model(
    combine: Any, projection: Projection | None, sizes: tuple[int, ...] = (9, 5, 7)
) -> ShippedModel:
    """Sixty ids, three tables of four columns, half of their values pruned."""
    rng = np.random.default_rng(5)
    tables = tuple(
        pruned(rng, Index("coded", rows, codes=rng.integers(0, rows, 60, dtype=np.int32)), rows, 4)
        for rows in sizes
    )
    embedding = ComposedEmbedding(tables, combine)
    return ShippedModel({}, Ids.range(0), Ids.range(60), None, embedding, projection=projection)


@pytest.mark.parametrize("path", [GOLDEN_LOOKUP, GOLDEN_FIELDS], ids=lambda path: path.stem)
def test_the_golden_files_are_found_alike(finds_alike, path):
    finds_alike(path.read_bytes())


@pytest.mark.parametrize("values", ["fp32", "fp16", "int8", "int4"])
@pytest.mark.parametrize("combine", ["sum", "product", "concat"])
def test_vectors_and_neighbours_are_the_same_to_the_bit(finds_alike, combine: str, values: Any):
    finds_alike(encode(lookup_model(combine, None), Encoding(values)))


@pytest.mark.parametrize("combine", ["sum", "concat"])
def test_projected_vectors_are_the_same_to_the_bit(finds_alike, combine: str):
    rng = np.random.default_rng(6)
    inputs = 4 if combine == "sum" else 12
    projection = Projection(normal(rng, inputs, 31), normal(rng, 31), 0.123456789)
    finds_alike(encode(lookup_model(combine, projection), Encoding("int8")))


@pytest.mark.parametrize("sizes", [(9, 5, 7), (9, 9, 9)])
def test_fields_stored_whole_and_shared_are_the_same_to_the_bit(finds_alike, sizes):
    rng = np.random.default_rng(7)
    words = Ids(np.array([f"Größe {n}" for n in range(20)], dtype=object))
    fields = (
        LookupField("__proto__", Ids.range(30)),
        LookupField("words", words, normal(rng, 20, 4), "int4"),
        LookupField("numbers", Ids(np.arange(30) * 10**15)),
    )
    model = replace(lookup_model("sum", None, sizes), fields=fields)
    finds_alike(encode(model, Encoding("int4")))


def test_equal_similarities_are_in_the_order_of_ids_and_nothing_is_like_zero(evaluate):
    vectors = np.array([[1, 0], [0, 0], [2, 0], [0, 1], [3, 0]], dtype=np.float32)
    embedding = ComposedEmbedding((Table(Index("identity"), vectors),))
    file = encode(ShippedModel({}, Ids.range(0), Ids.range(5), None, embedding), Encoding())
    nearest = "lookup.nearest('0', 9).map(({ id, similarity }) => [id, similarity])"
    expected = [["2", 1], ["4", 1], ["1", 0], ["3", 0]]
    assert evaluate(SCRIPT, [as_text(file), nearest]) == expected


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("lookup.vectors(['four'])", "unknown id 'four'"),
        ("lookup.nearest('one', 0)", "k must be at least 1"),
    ],
)
def test_what_cannot_be_answered_is_said(evaluate, script: str, message: str):
    from playwright.sync_api import Error

    with pytest.raises(Error, match=message):
        evaluate(SCRIPT, [as_text(GOLDEN_LOOKUP.read_bytes()), script])


def test_a_vector_beyond_32_bits_is_refused(evaluate):
    from playwright.sync_api import Error

    huge = Table(Index("modulo", 1), np.full((1, 2), 3e38, dtype=np.float32))
    model = replace(golden_lookup(), embedding=ComposedEmbedding((huge, huge)), projection=None)
    with pytest.raises(Error, match="not finite"):
        evaluate(ASK, [as_text(encode(model, Encoding())), 2**31])


def test_more_than_the_allowed_memory_is_refused(evaluate):
    from playwright.sync_api import Error

    with pytest.raises(Error, match="3 vectors take 36 bytes, more than 35"):
        evaluate(ASK, [as_text(GOLDEN_LOOKUP.read_bytes()), 35])


def test_the_example_for_a_page_of_ones_own_works(browser):
    text = (Path(__file__).parents[2] / "docs" / "compress.md").read_text(encoding="utf-8")
    (script,) = re.findall(r'<script type="module">\n(.*?)</script>', text, re.DOTALL)
    vectors = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
    embedding = ComposedEmbedding((Table(Index("identity"), vectors),))
    file = encode(ShippedModel({}, Ids.range(0), Ids.range(9), None, embedding), Encoding())
    page = browser.new_page()
    PageRuntime(page)
    page.route("**/small.cerp", lambda route: route.fulfill(body=file))
    page.add_script_tag(content=script, type="module")
    page.wait_for_selector("p:nth-of-type(5)")
    shown = [line.partition(":")[0] for line in page.locator("p").all_inner_texts()]
    assert shown == [str(near.id) for near in cerp.Lookup(decode(file)).nearest(3, 5)]
    page.close()
