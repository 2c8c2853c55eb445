"""What training never saw, in files that do not hold their interactions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cerp
from cerp.artifact import Encoding, decode, encode, section_bytes
from cerp.artifact.container import pack, unpack
from cerp.artifact.model import ColdStart, Seen
from cerp.artifact.numbers import encode_numbers
from cerp.errors import ConfigError, MalformedFileError
from golden_cold_start import COLD, ENCODING, cold_start_model
from plain_decoder import metadata_of, numbers
from small_cold_start import COLD_USERS, UNSEEN_ITEMS, cold_model, warm_model
from small_models import NUM_ITEMS, NUM_USERS

WITHOUT_SEEN = Encoding(seen=False)


def degrees_of(seen: Seen | None) -> list[int]:
    assert seen is not None
    return np.bincount(seen.items, minlength=NUM_ITEMS).tolist()


def test_interactions_say_what_training_never_saw():
    # Three users and three items: user 1 has nothing, item 0 nobody.
    found = ColdStart.of(Seen(np.array([0, 2, 2, 3]), np.array([1, 2, 2])), 3)
    assert (found.users.tolist(), found.items.tolist()) == ([1], [0])
    assert found.degrees is not None
    assert found.degrees.tolist() == [0, 1, 2]


def test_a_file_without_interactions_says_it_in_their_place():
    model = cold_model()
    file = encode(model, WITHOUT_SEEN)
    found = decode(file).cold
    assert found is not None
    assert found.users.tolist() == list(COLD_USERS)
    assert found.items.tolist() == list(UNSEEN_ITEMS)
    assert found.degrees is not None
    assert found.degrees.tolist() == degrees_of(model.seen)
    # Less than two bytes for each item.
    assert section_bytes(file)["cold start"] < 2 * NUM_ITEMS


def test_the_section_is_read_by_the_document_alone():
    file, model = encode(cold_model(), WITHOUT_SEEN), cold_model()
    tensors = dict(unpack(file).tensors)
    assert metadata_of(file)["cold"] == {"degrees": True, "items": 3, "users": 3}
    assert numbers(tensors, "cold.users") == [0, 6, 16]  # 0, 7 and 24 as gaps
    assert numbers(tensors, "cold.degrees") == degrees_of(model.seen)


def test_where_only_items_are_unseen_their_codes_are_enough():
    model = cold_model()
    assert model.seen is not None
    seen = model.seen
    # The users without rows get one each, of items that have takers.
    rows = [seen.items[a:b] for a, b in zip(seen.offsets, seen.offsets[1:], strict=False)]
    rows = [row if len(row) else np.array([5], dtype=np.int32) for row in rows]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    file = encode(replace(model, seen=Seen(offsets, np.concatenate(rows))), WITHOUT_SEEN)
    found = decode(file).cold
    assert found is not None
    assert (found.users.tolist(), found.degrees) == ([], None)
    assert found.items.tolist() == list(UNSEEN_ITEMS)
    assert numbers(dict(unpack(file).tensors), "cold.items") == [0, 10, 27]


@pytest.mark.parametrize("model", [cold_model(), warm_model()])
def test_a_file_with_its_interactions_has_no_such_section(model):
    file = encode(model, Encoding())
    assert "cold" not in metadata_of(file)
    assert decode(file).cold is None
    assert "cold start" not in section_bytes(file)


def test_a_file_of_which_training_saw_everything_has_no_such_section_unless_asked_for():
    file = encode(warm_model(), WITHOUT_SEEN)
    assert "cold" not in metadata_of(file)
    assert decode(file).cold_start is None
    found = decode(encode(warm_model(), Encoding(seen=False, popularity=True))).cold
    assert found is not None
    assert found.degrees is not None
    assert found.degrees.tolist() == degrees_of(warm_model().seen)


def test_a_model_that_was_read_is_written_the_same_again():
    file = encode(cold_model(), WITHOUT_SEEN)
    assert encode(decode(file), WITHOUT_SEEN) == file


def test_a_model_that_says_it_twice_is_refused():
    model = cold_model()
    twice = replace(model, cold=ColdStart.of(model.seen, NUM_ITEMS))
    with pytest.raises(ConfigError, match="and so does another part"):
        encode(twice, Encoding())


def forged(change: Callable[[dict[str, Any], dict[str, Any]], object]) -> bytes:
    content = unpack(encode(cold_model(), WITHOUT_SEEN))
    tensors = dict(content.tensors)
    metadata = {k: v for k, v in content.metadata.items() if k not in ("crc32", "format")}
    change(metadata, tensors)
    return pack(metadata, tensors)


def listed(tensors: dict[str, Any], name: str, values: list[int]) -> None:
    for part, found in encode_numbers(np.array(values)).items():
        tensors[f"cold.{name}.{part}"] = found


def nobody_knows_what_is_popular(metadata: dict[str, Any], tensors: dict[str, Any]) -> None:
    metadata["cold"] |= {"degrees": False, "items": 1}
    listed(tensors, "items", [4])
    for part in ("classes", "extra"):
        del tensors[f"cold.degrees.{part}"]


FORGERIES = {
    "no flag": (lambda m, t: m["cold"].pop("degrees"), "true or false"),
    "more users than there are": (lambda m, t: m["cold"].update(users=26), "from 0 to 25"),
    "users beyond the last": (lambda m, t: listed(t, "users", [0, 6, 18]), "beyond the last"),
    "a gap beyond the last": (lambda m, t: listed(t, "users", [0, 25, 0]), "beyond the last"),
    "more takers than users": (
        lambda m, t: listed(t, "degrees", [0] * 3 + [NUM_USERS + 1] * 37),
        "more takers",
    ),
    "items that do not add up": (lambda m, t: m["cold"].update(items=2), "are claimed"),
    "no tensor": (lambda m, t: t.pop("cold.degrees.classes"), "is missing"),
    "nobody knows what is popular": (nobody_knows_what_is_popular, "which items are popular"),
}


@pytest.mark.parametrize(("change", "message"), FORGERIES.values(), ids=FORGERIES)
def test_a_forged_section_is_refused(change, message: str):
    with pytest.raises(MalformedFileError, match=message):
        decode(forged(change))


def test_the_golden_file_is_made_and_read_to_the_byte():
    data = COLD.read_bytes()
    assert encode(cold_start_model(), ENCODING) == data
    assert encode(decode(data), ENCODING) == data
    runtime = cerp.load(COLD)
    # 12 was taken twice, 10 and 11 once, 500 never: -1/3, -1/2, -1/2.
    popular = [(12, pytest.approx(-1 / 3)), (10, -0.5), (11, -0.5)]
    assert runtime.recommend("cy", exclude_seen=False) == popular
    assert runtime.recommend_for([]) == popular
    # G = [[6, 1], [1, 6]], m = (1/3, 1/3), and someone who likes 10, whose vector is (2, 0), solves
    # [[6.6 + 4, 1.1], [1.1, 6.6]] z = 0.1 G m + 2 (2, 0) = (4 + 0.7/3, 0.7/3).
    z = np.linalg.solve([[10.6, 1.1], [1.1, 6.6]], [4 + 0.7 / 3, 0.7 / 3])
    wanted = [(12, pytest.approx(z.sum(), rel=1e-2)), (11, pytest.approx(2 * z[1], abs=0.02))]
    assert runtime.recommend_for([10]) == wanted
