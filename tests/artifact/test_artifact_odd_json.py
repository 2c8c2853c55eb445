"""JSON in a file that Python would take and later code would stumble over."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cerp.artifact import Encoding, decode, encode
from cerp.artifact.container import DEEPEST, parse_json
from cerp.data.ids import Ids
from cerp.errors import ConfigError, MalformedFileError
from small_models import small_model


def nested(levels: int) -> str:
    return '{"a": ' * levels + "1" + "}" * levels


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "a key is there twice"),
        (r'{"a": ["x", "\ud800"]}', "half a surrogate pair"),
        (r'{"\udc00": 1}', "half a surrogate pair"),
        (nested(900), "nested more than 32 deep"),
        ("[" * 900 + "]" * 900, "not a JSON object"),
        (json.dumps({"a": json.loads("[" * 40 + "]" * 40)}), "nested more than 32 deep"),
    ],
)
def test_odd_json_is_refused(text: str, message: str):
    with pytest.raises(MalformedFileError, match=message):
        parse_json(text, "the header")


def test_json_as_deep_as_allowed_is_read():
    assert parse_json(nested(DEEPEST), "the header") == json.loads(nested(DEEPEST))


def test_ids_with_halves_of_characters_are_refused(monkeypatch: pytest.MonkeyPatch):
    model = replace(small_model(), users=Ids([f"u{code}" for code in range(30)]))
    model = replace(model, users=Ids([f"u{code}" for code in range(len(small_model().users))]))
    monkeypatch.setattr(
        "cerp.artifact.names.encode_strings",
        lambda strings, _: json.dumps([*strings[:-1], "\ud800"]).encode("ascii"),
    )
    file = encode(model, Encoding())
    with pytest.raises(MalformedFileError, match="half a surrogate pair"):
        decode(file)


@pytest.mark.parametrize("side", ["users", "items"])
def test_a_model_without_users_or_items_is_none(side: str):
    model = small_model()
    with pytest.raises(ConfigError, match=r"there are (0 users|\d+ users and 0 items)"):
        encode(replace(model, seen=None, titles=None, **{side: Ids([])}), Encoding())
