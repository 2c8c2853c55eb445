"""The HTTP interface: what it answers, what it refuses, and how it stops."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

import cerp.cli
from cerp.artifact import Encoding, decode, encode, write
from cerp.artifact.model import ShippedModel
from cerp.data.ids import Ids
from cerp.runtime import Runtime
from cerp.server import endpoints
from cerp.server.app import create_app
from cerp.server.schemas import MAX_BODY_BYTES, MAX_FOUND
from small_models import small_model
from small_neighbours import small_neighbours


def client_of(model: ShippedModel) -> TestClient:
    file = encode(model, Encoding())
    return TestClient(create_app(Runtime(decode(file)), file), raise_server_exceptions=False)


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    return Runtime(decode(encode(small_model(), Encoding())))


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with client_of(small_model()) as client:
        yield client


def test_recommend_is_what_the_runtime_gives(client: TestClient, runtime: Runtime):
    answer = client.get("/recommend", params={"user": 104, "k": 7}).json()
    assert answer["user"] == 104
    assert [(item["id"], item["score"]) for item in answer["items"]] == runtime.recommend(104, 7)


def test_recommend_names_the_titles(client: TestClient, runtime: Runtime):
    (best,) = client.get("/recommend", params={"user": 104, "k": 1}).json()["items"]
    code = runtime.items.encode([best["id"]])[0]
    assert best["title"] == f"Title {code:02}"


def test_seen_items_come_back_only_when_asked_for(client: TestClient, runtime: Runtime):
    def items(exclude_seen: bool) -> set[int]:
        query = {"user": 100, "k": 1000, "exclude_seen": exclude_seen, "unseen_items": True}
        return {item["id"] for item in client.get("/recommend", params=query).json()["items"]}

    assert items(True) == set(runtime.items.values.tolist()) - set(runtime.seen(100))
    assert items(False) == set(runtime.items.values.tolist())


def test_a_batch_gives_a_list_for_each_user_in_order(client: TestClient, runtime: Runtime):
    banned, *candidates = runtime.items.values.tolist()[:20]
    asked = {"users": [107, 101], "k": 3, "exclude": [banned], "candidates": candidates}
    results = client.post("/recommend", json=asked).json()["results"]
    assert [result["user"] for result in results] == [107, 101]
    for result in results:
        expected = runtime.recommend(result["user"], 3, exclude=[banned], candidates=candidates)
        assert [(item["id"], item["score"]) for item in result["items"]] == expected


def test_liked_items_stand_for_someone_new(client: TestClient, runtime: Runtime):
    liked = runtime.items.values.tolist()[:3]
    (result,) = client.post("/recommend", json={"liked": liked, "k": 4}).json()["results"]
    assert result["user"] is None
    assert [(i["id"], i["score"]) for i in result["items"]] == runtime.recommend_for(liked, 4)


def test_similar_is_what_the_runtime_gives(client: TestClient, runtime: Runtime):
    item = int(runtime.items.values[5])
    answer = client.get("/similar", params={"item": item, "k": 3}).json()
    assert answer["item"] == {"id": item, "title": "Title 05"}
    assert [(i["id"], i["score"]) for i in answer["items"]] == runtime.similar_items(item, 3)


def test_score_keeps_the_order_asked_for(client: TestClient, runtime: Runtime):
    items = runtime.items.values.tolist()[5:1:-1]
    answer = client.post("/score", json={"user": 103, "items": items}).json()
    assert answer == {"user": 103, "scores": runtime.score(103, items).tolist()}


def test_history_is_what_the_user_had_in_training(client: TestClient, runtime: Runtime):
    answer = client.get("/history", params={"user": 110}).json()
    assert [item["id"] for item in answer["items"]] == runtime.seen(110)
    assert answer["total"] == len(runtime.seen(110))


def test_text_ids_are_text_also_when_they_look_like_numbers():
    users = Ids([str(number) for number in range(25)])
    with client_of(replace(small_model(), users=users)) as client:
        assert client.get("/recommend", params={"user": "7"}).json()["user"] == "7"
        assert client.post("/score", json={"user": 7, "items": [1]}).status_code == 404


def test_ids_beyond_53_bits_survive():
    users = Ids(np.arange(25) + 2**60)
    with client_of(replace(small_model(), users=users)) as client:
        assert client.get("/recommend", params={"user": 2**60 + 1}).json()["user"] == 2**60 + 1


def test_a_search_puts_the_exact_id_first_then_beginnings_then_parts_of_titles():
    titles = ["b 20", "x", "20 a", "y", *("z" for _ in range(36))]
    items = Ids([7, 20, 33, 201, *range(1000, 1036)])
    with client_of(replace(small_model(), items=items, titles=titles)) as client:
        found = client.get("/items", params={"query": "20"}).json()["found"]
    assert [entry["id"] for entry in found] == [20, 33, 201, 7]


def test_a_search_without_a_query_is_bounded():
    users = Ids(np.arange(25))
    with client_of(replace(small_model(), users=users)) as client:
        assert len(client.get("/users").json()["found"]) == min(25, MAX_FOUND)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/recommend?user=9", "unknown user 9"),
        ("/recommend?user=0100", "unknown user '0100'"),
        ("/recommend?user=anna", "unknown user 'anna' (ids here are integers"),
        ("/history?user=9", "unknown user 9"),
        ("/similar?item=-1", "unknown item '-1'"),
    ],
)
def test_an_unknown_id_is_not_found_and_named(client: TestClient, path: str, message: str):
    answer = client.get(path)
    assert answer.status_code == 404
    assert message in answer.json()["error"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"users": [100], "k": 1001}, "k: Input should be less than or equal to 1000"),
        ({"users": [100], "k": 0}, "k: Input should be greater"),
        ({"users": []}, "users: List should have at least 1 item"),
        ({"users": [100] * 1025}, "users: List should have at most 1024"),
        ({"users": [100] * 1024, "k": 1000}, "at most 100,000 items in all"),
        ({"users": [100], "exclude": [1] * 10_001}, "exclude: List should have at most 10000"),
        ({"users": [100], "liked": [1]}, "give either 'users' or 'liked'"),
        ({}, "give either 'users' or 'liked'"),
        ({"users": [1.5]}, "users.0"),
        ({"users": ["x" * 1001]}, "users.0"),
        ({"users": [100], "excluded": [1]}, "excluded: Extra inputs are not permitted"),
    ],
)
def test_a_request_out_of_bounds_is_refused_by_name(
    client: TestClient, body: dict[str, Any], message: str
):
    answer = client.post("/recommend", json=body)
    assert answer.status_code == 422
    assert message in answer.json()["error"]


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (
            {"content": b'{"users": }', "headers": {"Content-Type": "application/json"}},
            "the body is not JSON (Expecting value at character 11); send one object, as "
            "/openapi.json describes it",
        ),
        (
            {"data": {"users": "100"}},
            "the body is no JSON object; send one, with Content-Type: application/json",
        ),
        ({"json": [100]}, "the body is no JSON object; send one, with Content-Type: "),
    ],
)
def test_a_body_that_is_not_json_is_refused_with_what_to_send(
    client: TestClient, sent: dict[str, Any], message: str
):
    answer = client.post("/recommend", **sent)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(message)


def test_a_body_over_the_limit_is_refused_with_and_without_a_declared_length(client: TestClient):
    body = b" " * (MAX_BODY_BYTES + 1)
    for content in (body, iter([body])):
        answer = client.post("/recommend", content=content)
        assert (answer.status_code, list(answer.json())) == (413, ["error"])


def test_a_model_that_cannot_do_it_says_so():
    with client_of(small_model("mlp")) as client:
        answer = client.post("/recommend", json={"liked": [1]})
    assert answer.status_code == 422
    assert "scores by a tower" in answer.json()["error"]


def test_a_file_without_users_is_asked_by_liked_items():
    model = small_neighbours()
    item = model.items.values[9].item()
    with client_of(model) as client:
        answer = client.post("/recommend", json={"liked": [item], "k": 3})
        found = [(one["id"], one["score"]) for one in answer.json()["results"][0]["items"]]
        assert found == Runtime(model).recommend_for([item], 3)
        refused = [
            client.get("/recommend", params={"user": 0}),
            client.get("/history", params={"user": 0}),
            client.post("/recommend", json={"users": [0]}),
            client.post("/score", json={"user": 0, "items": [item]}),
        ]
        assert [one.status_code for one in refused] == [422] * 4
        assert all("give the items that someone likes" in one.json()["error"] for one in refused)
        assert client.get("/users").json() == {"found": []}
        card = client.get("/model").json()
        assert (card["users"], card["items"], card["has_history"]) == (0, 40, False)
        assert card["takes_liked_items"]
        similar = client.get("/similar", params={"item": item, "k": 2}).json()
        assert len(similar["items"]) == 2


def test_a_file_without_history_says_how_to_ask(client: TestClient):
    with client_of(replace(small_model(), seen=None)) as client:
        assert "exclude_seen" in client.get("/recommend?user=100").json()["error"]
        assert client.get("/recommend?user=100&exclude_seen=false").status_code == 200
        assert client.get("/model").json()["has_history"] is False


def test_a_bug_leaks_nothing(runtime: Runtime):
    class Broken(Runtime):
        def recommend(self, *_: object, **__: object) -> list[Any]:
            raise ZeroDivisionError("secret")

    app = create_app(Broken(runtime.model), encode(runtime.model, Encoding()))
    with TestClient(app, raise_server_exceptions=False) as client:
        answer = client.get("/recommend?user=100")
    assert answer.status_code == 500
    assert list(answer.json()) == ["error"]
    assert "secret" not in answer.text


def test_the_model_is_the_very_file_and_is_not_sent_twice(client: TestClient):
    first = client.get("/model.cerp")
    assert first.content == encode(small_model(), Encoding())
    again = client.get("/model.cerp", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_sections_of_the_card_add_up_to_the_file(client: TestClient):
    card = client.get("/model").json()
    size = len(client.get("/model.cerp").content)
    assert sum(card["sections"].values()) == card["total_bytes"] == size
    assert card["full_table_bytes"] == (25 + 40) * 12 * 4


def test_every_answer_tells_browsers_to_load_nothing_from_elsewhere(client: TestClient):
    for path in ("/", "/health", "/model.cerp", "/nowhere"):
        policy = client.get(path).headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'self';")
        assert "unsafe" not in policy


@pytest.mark.parametrize(
    "path", ["/", "/app.js", "/health", "/model.cerp", "/recommend?user=100", "/nowhere"]
)
def test_head_is_answered_as_get_without_a_body(client: TestClient, path: str):
    got, head = client.get(path), client.head(path)
    assert head.status_code == got.status_code
    assert head.headers == got.headers
    assert head.content == b""


def test_head_with_an_etag_of_what_is_there_is_not_modified(client: TestClient):
    etag = client.head("/model.cerp").headers["ETag"]
    assert client.head("/model.cerp", headers={"If-None-Match": etag}).status_code == 304


@pytest.mark.parametrize("path", ["/../pyproject.toml", "/%2e%2e/app.py", "/app.py", "/docs"])
def test_nothing_but_the_page_and_the_interface_is_served(client: TestClient, path: str):
    assert client.get(path).status_code == 404


def test_the_interface_is_described(client: TestClient):
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/recommend", "/similar", "/score", "/health", "/metrics"} <= set(paths)


def test_metrics_count_requests_by_endpoint_and_status():
    with client_of(small_model()) as client:
        for path in ("/recommend?user=100", "/recommend?user=1", "/one", "/two"):
            client.get(path)
        families = {f.name: f for f in text_string_to_metric_families(client.get("/metrics").text)}
        size = len(client.get("/model.cerp").content)
    counted = {
        (sample.labels["endpoint"], sample.labels["status"]): sample.value
        for sample in families["cerp_requests"].samples
        if sample.name.endswith("_total")
    }
    assert counted == {("/recommend", "200"): 1, ("/recommend", "404"): 1, ("unknown", "404"): 2}
    assert [sample.value for sample in families["cerp_model_bytes"].samples] == [size]
    assert "cerp_request_seconds" in families


class Watched(Runtime):
    """Knows whether it was asked on the event loop."""

    on_loop: bool

    def recommend(self, *given: object, **options: object) -> list[Any]:
        self.on_loop = is_on_event_loop()
        return super().recommend(*given, **options)

    def similar_items(self, *given: object) -> list[Any]:
        self.on_loop = is_on_event_loop()
        return super().similar_items(*given)


def is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize("path", ["/recommend?user=100", "/similar?item=ITEM"])
@pytest.mark.parametrize("is_quick", [True, False])
def test_a_slow_list_is_made_in_a_thread_and_a_quick_one_at_once(
    monkeypatch: pytest.MonkeyPatch, path: str, is_quick: bool
):
    watched = Watched(small_model("mlp"))
    monkeypatch.setattr(endpoints, "QUICK", watched.multiplications - (not is_quick))
    app = create_app(watched, encode(watched.model, Encoding()))
    with TestClient(app) as client:
        path = path.replace("ITEM", str(watched.items.values[0]))
        assert client.get(path).status_code == 200
    assert watched.on_loop == is_quick


SLOW = """
import sys, time
from cerp.runtime import Runtime
quick = Runtime.recommend
def slow(*given, **options):
    print("asked", file=sys.stderr, flush=True)
    time.sleep(0.5)
    return quick(*given, **options)
Runtime.recommend = slow
sys.argv = ["cerp", "serve", sys.argv[1], "--port", "0"]
from cerp.cli import main
main()
"""


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_request_in_flight_is_finished_before_the_server_stops(tmp_path: Path, stop: int):
    path = tmp_path / "model.cerp"
    write(path, small_model(), Encoding())
    command = [sys.executable, "-c", SLOW, str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        port = int(re.search(r":(\d+)", server.stderr.readline()).group(1))
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"GET /recommend?user=100 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert server.stderr.readline() == "asked\n"
            server.send_signal(stop)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert server.wait(10) == 0
        assert server.stderr.read() == ""
    assert answer.startswith(b"HTTP/1.1 200")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["user"] == 100


def test_a_served_model_does_not_change_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def overwrite_and_ask(server: uvicorn.Server, **_: object) -> None:
        path.write_bytes(encode(small_model("propagated", seed=1), Encoding()))
        with TestClient(server.config.app, base_url="http://localhost") as client:
            answers.append(client.get("/recommend?user=104").json()["items"])
            assert client.get("/model.cerp").content == file

    path, model, answers = tmp_path / "model.cerp", small_model("propagated"), list[Any]()
    file = encode(model, Encoding())
    path.write_bytes(file)
    monkeypatch.setattr("uvicorn.Server.run", overwrite_and_ask)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    done = CliRunner().invoke(cerp.cli.app, ["serve", str(path), "--port", "0"])
    assert done.exit_code == 0
    assert [(i["id"], i["score"]) for i in answers[0]] == Runtime(model).recommend(104)


@pytest.mark.parametrize(("host", "warns"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_listening_to_other_machines_comes_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, warns: bool
):
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    write(tmp_path / "model.cerp", small_model(), Encoding())
    command = ["serve", str(tmp_path / "model.cerp"), "--host", host, "--port", "0"]
    done = CliRunner().invoke(cerp.cli.app, command)
    assert done.exit_code == 0
    assert f"serving model.cerp at http://{host}:" in done.stderr
    assert ("there is no password" in done.stderr) == warns


def test_a_port_that_is_taken_is_the_callers_mistake(tmp_path: Path):
    path = tmp_path / "model.cerp"
    write(path, small_model(), Encoding())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "cerp.cli", "serve", str(path), "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    assert "choose another --port" in done.stderr
    assert "Traceback" not in done.stderr
