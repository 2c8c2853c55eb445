"""Requests that once failed, or were answered though they should not have been."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fastapi.testclient import TestClient

from cerp.artifact import Encoding, ShippedModel, encode
from cerp.cli.serve import _names
from cerp.data.ids import Ids
from cerp.runtime import Runtime
from cerp.server.app import create_app
from small_models import small_model


def client(model: ShippedModel | None = None, hosts: list[str] | None = None) -> TestClient:
    model = model or small_model()
    app = create_app(Runtime(model), encode(model, Encoding()), hosts=hosts)
    return TestClient(app, raise_server_exceptions=False)


@pytest.mark.parametrize("path", ["/items", "/users"])
def test_a_search_without_a_match_finds_nothing(path: str):
    answer = client().get(path, params={"query": "zzzz"})
    assert (answer.status_code, answer.json()) == (200, {"found": []})


def test_no_codes_have_no_ids():
    assert Ids(["a", "b"]).decode([]) == []
    assert Ids.range(3).decode(np.array([], dtype=np.int32)) == []


def test_what_a_path_can_be_asked_with_is_said_in_full():
    answer = client().delete("/recommend")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD, POST")
    assert client().post("/health").headers["Allow"] == "GET, HEAD"


def test_the_same_is_said_of_models_beside_the_first():
    model = small_model()
    file = encode(model, Encoding())
    app = create_app(Runtime(model), file, others={"films": (Runtime(model), file)})
    answer = TestClient(app).delete("/models/films/recommend")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD, POST")


def test_a_length_in_two_ways_is_refused():
    headers = {"Content-Length": "2", "Transfer-Encoding": "chunked"}
    answer = client().post("/score", content=b"{}", headers=headers)
    assert answer.status_code == 400
    assert answer.json() == {"error": "give Content-Length or Transfer-Encoding, not both"}
    described = client().get("/openapi.json").json()["paths"]["/score"]["post"]["responses"]
    assert "400" in described


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8000", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:8000", 200),
        ("[::1]:8000", 200),
        ("rebound.example:8000", 400),
        ("", 400),
        ("localhost.example", 400),
    ],
)
def test_a_server_of_this_machine_goes_by_its_own_names(host: str, status: int):
    answer = client(hosts=_names("127.0.0.1")).get("/health", headers={"Host": host})
    assert answer.status_code == status


def test_a_server_that_others_reach_goes_by_any_name():
    assert _names("0.0.0.0") is None
    assert client().get("/health", headers={"Host": "shop.example"}).status_code == 200


def test_ids_longer_than_a_request_may_carry_are_listed():
    model = small_model()
    long = [f"{code}" + "x" * 1500 for code in range(len(model.items))]
    answer = client(replace(model, items=Ids(long))).get("/items")
    assert answer.status_code == 200
    assert answer.json()["found"][0]["id"] == long[0]
    listed = client(replace(model, items=Ids(long))).get("/recommend", params={"user": 104})
    assert listed.status_code == 200
