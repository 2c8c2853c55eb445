"""The page's decoder and Python's have the same rules: what one refuses, the other refuses."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

import pytest

from campaigns.browser import PageRuntime
from campaigns.corpus import model_files
from campaigns.forging import Json, forged, joined, parts
from cerp.artifact import decode
from cerp.errors import FileFormatError
from golden_filter import FILTER, MIXTURE
from golden_model import GOLDEN, GOLDEN_CODED

CASES = 1_000


@pytest.fixture(scope="module")
def page_runtime(browser) -> Iterator[PageRuntime]:
    page = browser.new_page()
    yield PageRuntime(page)
    page.close()


def is_model(file: bytes) -> bool:
    try:
        decode(file)
    except FileFormatError:
        return False
    return True


def test_both_take_every_valid_file(page_runtime):
    files = model_files()
    assert [judged.problem for judged in page_runtime.judge(files)] == [None] * len(files)


def test_both_say_the_same_of_forged_files(page_runtime):
    rng = random.Random(17)
    corpus = model_files()
    files = [forged(rng.choice(corpus), rng) for _ in range(CASES)]
    here = [is_model(file) for file in files]
    there = [judged.problem is None for judged in page_runtime.judge(files)]
    assert [number for number in range(CASES) if here[number] != there[number]] == []
    assert CASES * 0.02 < sum(here) < CASES * 0.5


def with_metadata(file: bytes, change: Callable[[Json], object]) -> bytes:
    header, payload = parts(file)
    metadata = json.loads(header["__metadata__"]["cerp"])
    change(metadata)
    header["__metadata__"]["cerp"] = json.dumps(metadata, separators=(",", ":"))
    return joined(header, payload)


def with_text(file: bytes, old: str, new: str) -> bytes:
    """The metadata with another text in one place."""
    header, payload = parts(file)
    assert old in header["__metadata__"]["cerp"]
    header["__metadata__"]["cerp"] = header["__metadata__"]["cerp"].replace(old, new, 1)
    return joined(header, payload)


def index(metadata: Json) -> Json:
    return metadata["embedding"]["tables"][0]["index"]


TINY, CODED = GOLDEN.read_bytes(), GOLDEN_CODED.read_bytes()
ALONE, MIXED = FILTER.read_bytes(), MIXTURE.read_bytes()
REFUSED = {
    "a key twice": with_text(TINY, '"users":2', '"users":2,"users":2'),
    "a byte order mark": with_text(TINY, "{", "\ufeff{"),
    "a count with a point": with_text(TINY, '"users":2', '"users":2.0'),
    "a count with an exponent": with_text(TINY, '"users":2', '"users":2e0'),
    "a format with a point": with_text(TINY, '"format":1', '"format":1.0'),
    "a format that is true": with_text(TINY, '"format":1', '"format":true'),
    "half a character": with_text(TINY, '"seed":0', r'"seed":"\ud800"'),
    "an endless number": with_text(TINY, '"seed":0', '"seed":1e999'),
    "an endless whole number": with_text(TINY, '"seed":0', f'"seed":{10**400}'),
    "nested facts": with_text(TINY, '"seed":0', f'"seed":{"[" * 900}{"]" * 900}'),
    "no items": with_metadata(TINY, lambda m: m.update(items=0)),
    "no users": with_metadata(TINY, lambda m: m.update(users=0)),
    "no facts": with_metadata(TINY, lambda m: m.pop("facts")),
    "another order": with_metadata(TINY, lambda m: m.update(order="none")),
    "a graph that is false": with_metadata(ALONE, lambda m: m.update(seen=False)),
    "a word in a list": with_metadata(TINY, lambda m: m.update(backbone=["lightgcn"])),
    "optional parts in a word": with_metadata(TINY, lambda m: m.update(optional="seen")),
    "another join": with_metadata(TINY, lambda m: m["embedding"].update(combine="max")),
    "a factor": with_metadata(CODED, lambda m: index(m).update(factor=2**21)),
    "an offset": with_metadata(CODED, lambda m: index(m).update(offset=2**31 - 1)),
    "an exponent": with_metadata(ALONE, lambda m: m["filter"].update(q=65)),
    "an exponent with a point": with_metadata(ALONE, lambda m: m["filter"].update(q=1.0)),
    "beta without vectors": with_metadata(ALONE, lambda m: m["filter"].update(beta=1)),
    "no beta": with_metadata(MIXED, lambda m: m["filter"].update(beta=None)),
    "no epsilon": with_metadata(MIXED, lambda m: m["filter"].pop("epsilon")),
    "beta as a word": with_metadata(MIXED, lambda m: m["filter"].update(beta="1")),
    "beta that is true": with_metadata(MIXED, lambda m: m["filter"].update(beta=True)),
}
TAKEN = {
    "spaces": with_text(TINY, '"users":2', '"users" : \t\n\r 2'),
    "less than nothing": with_text(CODED, '"layers":0', '"layers":-0'),
    "a part called __proto__": with_text(TINY, '"seed":0', '"__proto__":{}'),
    "large numbers": with_text(TINY, '"seed":0', f'"seed":[1e308,{10**300}]'),
    "facts nested 29 deep": with_text(TINY, '"seed":0', f'"seed":{"[" * 29}{"]" * 29}'),
    "beta as a whole number": with_metadata(MIXED, lambda m: m["filter"].update(beta=2)),
    "epsilon with an exponent": with_metadata(MIXED, lambda m: m["filter"].update(epsilon=1e-12)),
    "no filter where none is": with_metadata(TINY, lambda m: m.update(filter=None)),
}


def test_both_refuse_what_is_hard_to_read_in_one_language(page_runtime):
    assert [name for name, file in REFUSED.items() if is_model(file)] == []
    judged = page_runtime.judge(list(REFUSED.values()))
    assert [name for name, found in zip(REFUSED, judged, strict=True) if not found.problem] == []


def test_both_take_what_is_odd_and_right(page_runtime):
    assert [name for name, file in TAKEN.items() if not is_model(file)] == []
    judged = page_runtime.judge(list(TAKEN.values()))
    assert [found.problem for found in judged] == [None] * len(TAKEN)
