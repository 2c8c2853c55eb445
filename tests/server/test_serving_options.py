"""What a server is told to tell, to whom, and that it takes a new file while it answers."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from cerp.artifact import Encoding, decode, encode, write
from cerp.cli.serve import _named
from cerp.errors import ConfigError
from cerp.runtime import Runtime
from cerp.server.app import create_app, put_model
from cerp.server.options import ServeOptions
from cerp.server.reloading import Watch, WatchedFile
from small_filters import small_filter
from small_models import small_model

FILE = encode(small_model(), Encoding())
OTHER = encode(small_model(seed=1), Encoding())


def client(others: dict[str, bytes] | None = None, **options: object) -> TestClient:
    beside = {name: (Runtime(decode(file)), file) for name, file in (others or {}).items()}
    app = create_app(Runtime(decode(FILE)), FILE, options=ServeOptions(**options), others=beside)
    return TestClient(app, raise_server_exceptions=False)


def test_a_batch_with_an_unknown_user_answers_the_others():
    answer = client().post("/recommend", json={"users": [100, 9, 101], "k": 2})
    assert answer.status_code == 200
    first, unknown, last = answer.json()["results"]
    assert (first["user"], unknown["user"], last["user"]) == (100, 9, 101)
    assert (len(first["items"]), unknown["items"], len(last["items"])) == (2, [], 2)
    assert "unknown user" in unknown["error"]
    assert client().post("/recommend", json={"users": [9]}).status_code == 404


def test_what_is_not_told_is_not_found_and_the_card_says_so():
    closed = client(history=False, download=False)
    assert "does not tell" in closed.get("/history", params={"user": 100}).json()["error"]
    assert closed.get("/model.cerp").status_code == 404
    card = closed.get("/model").json()
    assert (card["has_history"], card["can_download"], card["excludes_seen"]) == (
        False,
        False,
        True,
    )


def test_pages_of_named_origins_may_ask_and_others_may_not():
    origin = {"Origin": "https://shop.example"}
    asked = client(origins=("https://shop.example",)).get("/health", headers=origin)
    assert asked.headers["access-control-allow-origin"] == "https://shop.example"
    elsewhere = client(origins=("https://shop.example",)).get(
        "/health", headers={"Origin": "https://evil.example"}
    )
    assert "access-control-allow-origin" not in elsewhere.headers
    assert "access-control-allow-origin" not in client().get("/health", headers=origin).headers
    with pytest.raises(ConfigError, match=r"'shop.example/x' is no origin"):
        ServeOptions(("shop.example/x",))


@pytest.mark.parametrize(
    ("accepted", "is_packed"),
    [("gzip", True), ("br, gzip;q=0.5", True), ("gzip;q=0", False), ("identity", False)],
)
def test_long_lists_go_out_packed_to_those_who_take_it(accepted: str, is_packed: bool):
    query = {"users": list(range(100, 125)), "k": 20}
    with client().stream(
        "POST", "/recommend", json=query, headers={"Accept-Encoding": accepted}
    ) as answer:
        raw = b"".join(answer.iter_raw())
    assert (answer.headers.get("content-encoding") == "gzip") == is_packed
    assert int(answer.headers["content-length"]) == len(raw)
    plain = client().post("/recommend", json=query, headers={"Accept-Encoding": "identity"})
    assert (gzip.decompress(raw) if is_packed else raw) == plain.content


def test_docs_are_there_where_asked_for_and_load_nothing_from_elsewhere():
    assert client().get("/docs").status_code == 404
    page = client(docs=True).get("/docs").text
    assert "POST /recommend" in page
    assert "exclude_seen" in page
    assert "<script" not in page
    assert "http" not in page.replace("https://", "http").split("</head>")[0]


def test_models_beside_the_first_answer_below_their_names():
    served = client({"other": OTHER, "graph": encode(small_filter(), Encoding())})
    assert set(served.get("/models").json()) == {"other", "graph"}
    own = served.get("/models/other/recommend", params={"user": 104, "k": 5}).json()["items"]
    expected = Runtime(decode(OTHER)).recommend(104, 5)
    assert [(item["id"], item["score"]) for item in own] == expected
    batch = served.post("/models/graph/recommend", json={"users": [104], "k": 3}).json()
    expected = Runtime(small_filter()).recommend(104, 3)
    assert [item["id"] for item in batch["results"][0]["items"]] == [one.item for one in expected]
    assert served.get("/models/other/recommend", params={"user": 9}).status_code == 404
    assert served.get("/models/none/recommend", params={"user": 104}).status_code == 404


def test_the_first_of_several_answers_by_its_name_too_also_when_it_is_replaced():
    beside = {"films": (Runtime(decode(OTHER)), OTHER)}
    app = create_app(Runtime(decode(FILE)), FILE, label="shop", others=beside)
    served = TestClient(app)
    asked = {"user": 104, "k": 5}
    assert set(served.get("/models").json()) == {"shop", "films"}
    before = served.get("/models/shop/recommend", params=asked).json()
    assert before == served.get("/recommend", params=asked).json()
    assert served.delete("/models/shop/recommend").headers["Allow"] == "GET, HEAD, POST"
    put_model(app, Runtime(decode(OTHER)), OTHER, "shop.cerp")
    after = served.get("/models/shop/recommend", params=asked).json()
    assert before != after == served.get("/models/films/recommend", params=asked).json()


def test_a_list_that_could_be_made_has_no_error():
    assert set(client().get("/recommend", params={"user": 100}).json()) == {"user", "items"}


def test_models_are_named_by_their_files_or_as_given():
    assert _named(["a/shop.cerp", "films=b/f.cerp"]) == {
        "shop": Path("a/shop.cerp"),
        "films": Path("b/f.cerp"),
    }
    with pytest.raises(ConfigError, match="two models are called 'shop'"):
        _named(["a/shop.cerp", "b/shop.cerp"])
    with pytest.raises(ConfigError, match="cannot be part of an address"):
        _named(["a/my shop.cerp"])


def test_a_changed_file_is_taken_once_it_is_whole_and_the_old_one_answers_till_then(
    tmp_path: Path,
):
    path = tmp_path / "model.cerp"
    path.write_bytes(FILE)
    app = create_app(Runtime(decode(FILE)), FILE)
    asked = TestClient(app)
    told: list[str] = []
    watched = WatchedFile(
        path, lambda runtime, file: put_model(app, runtime, file, "m"), told.append
    )

    def best() -> float:
        return asked.get("/recommend", params={"user": 104, "k": 1}).json()["items"][0]["score"]

    before = best()
    watched.look()
    assert told == []
    path.write_bytes(OTHER[:-7])
    watched.look()
    assert "not reloaded, the model of before answers on" in told[0]
    assert best() == before
    watched.look()
    assert len(told) == 1  # said once
    path.write_bytes(OTHER)
    watched.look()
    assert told[1] == f"reloaded {path} ({len(OTHER):,} bytes)"
    assert best() == Runtime(decode(OTHER)).recommend(104, 1)[0].score
    assert f"cerp_model_bytes {float(len(OTHER))}" in asked.get("/metrics").text


def test_a_watch_looks_at_once_when_it_is_woken():
    looked = threading.Event()

    class Looked(WatchedFile):
        def __init__(self) -> None:
            pass

        def look(self, *, always: bool = False) -> None:
            assert always
            looked.set()

    watch = Watch([Looked()], seconds=1000)
    watch.start()
    watch.wake()
    assert looked.wait(10)
    watch.end()
    watch.join(10)
    assert not watch.is_alive()


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no SIGHUP here")
def test_the_server_reloads_on_sighup_and_answers_on(tmp_path: Path):
    path = tmp_path / "model.cerp"
    write(path, small_model(), Encoding())
    command = [sys.executable, "-m", "cerp.cli", "serve", str(path), "--port", "0", "--no-reload"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert "serving" in server.stderr.readline()
        time.sleep(0.5)  # the handlers are set before the first request is taken
        write(path, small_model(seed=1), Encoding())
        os.kill(server.pid, signal.SIGHUP)
        assert server.stderr.readline().startswith("reloaded")
        server.terminate()
        assert server.wait(20) == 0
