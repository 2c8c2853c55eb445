"""The list of sections is the only one: what is added to it is written, read and accounted for."""

from __future__ import annotations

import numpy as np
import pytest

from cerp import artifact
from cerp.artifact import Encoding, section_bytes
from cerp.artifact.container import unpack
from cerp.artifact.sections import SECTIONS, section_number, section_of
from made_up_section import PricedModel, declare_prices, priced
from small_models import BACKBONES, NUM_ITEMS, small_model

PRICES = np.arange(NUM_ITEMS, dtype=np.uint8)


def priced_file(monkeypatch: pytest.MonkeyPatch, backbone: str = "mf") -> bytes:
    with monkeypatch.context() as patch:
        declare_prices(patch)
        return artifact.encode(priced(small_model(backbone), PRICES), Encoding())


@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_tensor_belongs_to_a_declared_section(backbone: str):
    declared = {section.name for section in SECTIONS}
    for values in ("fp32", "int4"):
        tensors = unpack(artifact.encode(small_model(backbone), Encoding(values))).tensors
        assert {section_of(name) for name in tensors} <= declared


def test_a_section_that_is_declared_is_written_counted_and_read(monkeypatch: pytest.MonkeyPatch):
    data = priced_file(monkeypatch)
    declare_prices(monkeypatch)
    assert section_bytes(data)["prices"] == NUM_ITEMS
    assert sum(section_bytes(data).values()) == len(data)
    found = artifact.decode(data)
    assert isinstance(found, PricedModel)
    np.testing.assert_array_equal(found.prices, PRICES)


def test_a_model_without_it_has_the_bytes_that_it_always_had(monkeypatch: pytest.MonkeyPatch):
    before = artifact.encode(small_model("lightgcn"), Encoding())
    declare_prices(monkeypatch)
    assert artifact.encode(priced(small_model("lightgcn"), None), Encoding()) == before


def test_a_reader_that_does_not_know_an_optional_section_skips_it(monkeypatch: pytest.MonkeyPatch):
    data = priced_file(monkeypatch)
    found = artifact.decode(data)
    assert found.titles == small_model().titles
    assert section_bytes(data)["prices"] == NUM_ITEMS
    assert sum(section_bytes(data).values()) == len(data)


def test_sections_have_numbers_of_their_own_unless_no_file_has_both():
    numbers = {section.name: section_number(section.name) for section in SECTIONS}
    assert numbers["graph"] == numbers["seen"] == numbers["cold start"]
    assert sorted(set(numbers.values())) == list(range(len(SECTIONS) - 2))
    assert section_number("prices") == len(SECTIONS) - 2
