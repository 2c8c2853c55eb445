"""Files of item neighbours: what is written is what is read, and what cannot be is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerp import artifact
from cerp.artifact import Encoding, ShippedModel, section_bytes
from cerp.artifact.container import pack, unpack
from cerp.errors import ConfigError, MalformedFileError
from cerp.export.size_limit import SizeLimit, within
from forged_neighbours import FORGERIES, forged
from golden_filter import filter_model
from golden_neighbours import NEIGHBOURS, neighbours_model
from small_models import small_model
from small_neighbours import small_neighbours

ARRAYS = ("offsets", "targets", "integers", "scales", "popularity")


def same(first: ShippedModel, second: ShippedModel) -> bool:
    return all(
        np.array_equal(getattr(first.neighbours, name), getattr(second.neighbours, name))
        for name in ARRAYS
    )


def test_the_golden_file_is_written_to_the_byte_and_read_back():
    assert artifact.encode(neighbours_model(), Encoding()) == NEIGHBOURS.read_bytes()
    found, wanted = artifact.read(NEIGHBOURS), neighbours_model()
    assert same(found, wanted)
    assert found.is_item_only
    assert (len(found.users), found.items, found.titles) == (0, wanted.items, wanted.titles)
    assert (found.head, found.embedding, found.seen, found.dim) == (None, None, None, 0)


@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_what_is_written_is_what_is_read(seed: int, share: float):
    model = small_neighbours(seed, share)
    assert same(artifact.decode(artifact.encode(model, Encoding())), model)


def test_every_byte_is_accounted_for_and_weights_are_what_a_budget_counts():
    data = NEIGHBOURS.read_bytes()
    sections = section_bytes(data)
    assert list(sections) == [
        "weights", "positions", "scales", "popularity", "ids", "titles", "header"
    ]  # fmt: skip
    assert sum(sections.values()) == len(data)
    counted = ("weights", "positions", "scales")
    assert artifact.embedding_bytes(sections) == sum(sections[name] for name in counted)


def test_a_reader_that_knows_no_neighbours_meets_a_word_that_it_does_not_know():
    data = NEIGHBOURS.read_bytes()
    assert unpack(data).metadata["backbone"] == "neighbours"
    assert artifact.backbone_name(artifact.decode(data)) == "neighbours"


def test_ids_may_be_left_out():
    found = artifact.decode(artifact.encode(neighbours_model(), Encoding(ids=False, titles=False)))
    assert found.items.values.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("share", [1.0, 0.95, 0.9])
def test_a_smaller_limit_leaves_out_the_smallest_weights(share: float):
    model = small_neighbours()
    whole = len(artifact.encode(model, Encoding()))
    data = within(model, Encoding(), SizeLimit(file=int(share * whole)))
    assert 0.97 * share * whole < len(data) <= share * whole
    left = artifact.decode(data).neighbours
    assert len(left) <= len(model.neighbours)
    assert np.abs(left.values).min() >= np.sort(np.abs(model.neighbours.values))[-len(left)]


def test_a_limit_without_room_for_a_weight_is_refused():
    with pytest.raises(ConfigError, match="not even without its weights"):
        within(small_neighbours(), Encoding(), SizeLimit(file=500))


def changed(**arrays: Any) -> ShippedModel:
    model = neighbours_model()
    assert model.neighbours is not None
    return replace(model, neighbours=replace(model.neighbours, **arrays))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (replace(neighbours_model(), users=small_model().users), "neighbours need no users"),
        (replace(neighbours_model(), seen=filter_model().seen), "neighbours need no users"),
        (replace(small_model(), neighbours=neighbours_model().neighbours), "neighbours rank alone"),
        (replace(neighbours_model(), neighbours=None), "0 users and 4 items"),
        (changed(scales=np.ones(3, np.float16)), "scales or a popularity of other than 4"),
        (changed(popularity=np.ones(5, np.uint8)), "scales or a popularity of other than 4"),
        (changed(integers=np.ones(4, np.int8)), "one weight for each target"),
        (changed(scales=np.full(4, np.inf, np.float16)), "finite and not negative"),
        (changed(targets=np.array([1, 1, 0, 1, 0], np.int32)), "targets of neighbours are not"),
        (changed(targets=np.array([1, 4, 0, 1, 0], np.int32)), "targets of neighbours are not"),
        (changed(offsets=np.array([0, 2, 2, 4, 4])), "targets of neighbours are not"),
    ],
)
def test_neighbours_that_cannot_rank_are_not_written(model: ShippedModel, reason: str):
    with pytest.raises(ConfigError, match=reason):
        artifact.encode(model, Encoding())


@pytest.mark.parametrize(("change", "reason"), FORGERIES)
def test_forged_neighbours_are_refused_by_name(change, reason: str):
    with pytest.raises(MalformedFileError, match=reason):
        artifact.decode(forged(change))


def test_a_file_of_vectors_or_a_filter_needs_users():
    content = unpack(NEIGHBOURS.read_bytes())
    content.metadata.update(backbone="mf", neighbours=None)
    tensors = {
        name: tensor
        for name, tensor in content.tensors.items()
        if not name.startswith("neighbours.")
    }
    with pytest.raises(MalformedFileError, match="0 users and 4 items"):
        artifact.decode(pack(content.metadata, tensors))
