from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cerp.data.datasets import PUBLIC_DATA_SETS, PublicDataSet, available, data_dir, fetch, load
from cerp.data.splits import Splits
from cerp.errors import ConfigError, DataError, DownloadError
from local_server import LocalServer, serving

TRAIN, TEST = b"0 0 1 2\n1 1 2 3\n", b"0 3\n1 0\n"
TINY = PublicDataSet(
    train_url="",
    test_url="",
    users=2,
    items=4,
    train=6,
    test=2,
    sha256={  # of the int32 pairs 00 01 02 11 12 13, and 03 10
        "train+valid": "1be2631870de1170ff670ef319f9c83665da360dcaa68537c9e65d9983504312",
        "test": "f4ebb1fbf18ca1c15f31c5e02a2f33fff75b920179f806112d869655c49aa55d",
    },
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data directory, which is not the working directory."""
    monkeypatch.setenv("CERP_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def server(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    """The home of the public data set 'tiny'."""
    with serving(monkeypatch) as server:
        server.files = {"/train.txt": TRAIN, "/test.txt": TEST}
        urls = {"train_url": f"{server.url}/train.txt", "test_url": f"{server.url}/test.txt"}
        monkeypatch.setitem(PUBLIC_DATA_SETS, "tiny", replace(TINY, **urls))
        yield server


def folder_of(path: Path, train: bytes = TRAIN, test: bytes = TEST) -> Path:
    path.mkdir(parents=True)
    (path / "train.txt").write_bytes(train)
    (path / "test.txt").write_bytes(test)
    return path


def test_a_public_data_set_is_downloaded_once(server, root):
    first, second = load("tiny"), load("tiny")
    assert first.fingerprint == second.fingerprint
    assert [answer.path for answer in server.answers] == ["/train.txt", "/test.txt"]
    assert [path.name for path in root.iterdir()] == ["tiny"]


def test_the_notes_of_a_download_let_its_folder_verify_itself(server):
    folder = fetch("tiny")
    notes = json.loads((folder / "meta.json").read_text())
    assert (notes["users"], notes["items"], notes["sha256"]) == (2, 4, dict(TINY.sha256))
    (folder / "test.txt").write_bytes(b"0 3\n")
    with pytest.raises(DataError, match="fingerprint of test"):
        Splits.load(folder)


def test_an_unknown_fingerprint_is_noted_at_the_first_download(server, monkeypatch):
    monkeypatch.setitem(
        PUBLIC_DATA_SETS,
        "tiny",
        replace(PUBLIC_DATA_SETS["tiny"], sha256={"test": TINY.sha256["test"]}),
    )
    notes = json.loads((fetch("tiny") / "meta.json").read_text())
    assert notes["sha256"] == dict(TINY.sha256)


def test_a_tampered_download_is_refused_with_both_fingerprints_and_removed(server, root):
    server.files["/train.txt"] = TRAIN.replace(b"0 0 1 2", b"0 0 1 3")
    server.files["/test.txt"] = TEST.replace(b"0 3", b"0 2")
    with pytest.raises(DownloadError, match=f"is [0-9a-f]{{64}}, .* {TINY.sha256['train+valid']}"):
        load("tiny")
    assert list(root.iterdir()) == []


def test_a_login_page_in_place_of_the_data_is_refused_and_removed(server, root):
    server.files["/test.txt"] = b"<html> please log in </html>"
    with pytest.raises(DownloadError, match="is not tiny, and was removed"):
        fetch("tiny")
    assert list(root.iterdir()) == []


def test_a_wrong_count_is_named(server):
    server.files["/train.txt"] = TRAIN + b"2 0\n"
    with pytest.raises(DownloadError, match="3 users, published are 2"):
        fetch("tiny")


def test_an_interrupted_download_goes_on_in_the_next_run(server, root):
    server.break_off_after = [5, 0, 0]
    with pytest.raises(DownloadError, match="broke off"):
        fetch("tiny")
    assert list(root.glob("*")) == [root / ".tiny.part"]
    server.answers.clear()
    fetch("tiny")
    assert [(answer.path, answer.sent) for answer in server.answers] == [
        ("/train.txt", len(TRAIN) - 5),
        ("/test.txt", len(TEST)),
    ]


def test_without_a_connection_the_error_says_what_to_put_where(server, root):
    server.shutdown()
    server.server_close()
    with pytest.raises(DownloadError) as caught:
        load("tiny")
    for file in ("train.txt", "test.txt"):
        assert f"{root / 'tiny' / file}  from {server.url}/{file}" in str(caught.value)


def test_files_put_there_by_hand_are_used_without_a_download(server, root):
    folder_of(root / "tiny")
    assert load("tiny").fingerprints["train+valid"] == TINY.sha256["train+valid"]
    assert server.answers == []


def test_a_ready_validation_part_is_kept(server, root):
    folder = folder_of(root / "tiny", train=b"0 0 1\n1 1 2\n")
    (folder / "valid.txt").write_bytes(b"0 2\n1 3\n")
    assert len(load("tiny").valid) == 2


def test_other_files_under_the_name_of_a_public_data_set_are_refused(server, root):
    folder = folder_of(root / "tiny", test=b"0 3\n")
    with pytest.raises(DataError, match="is not tiny: 1 interactions in test, published are 2"):
        load("tiny")
    assert (folder / "test.txt").read_bytes() == b"0 3\n"


def test_half_a_data_set_is_not_overwritten(server, root):
    (folder_of(root / "tiny") / "test.txt").unlink()
    with pytest.raises(DataError, match=r"lacks train\.txt or test\.txt"):
        load("tiny")


def test_a_data_directory_that_cannot_be_made_is_an_error_that_says_so(server, root):
    root.write_text("a file")
    with pytest.raises(DownloadError, match="let CERP_DATA_DIR name a folder"):
        fetch("tiny")


def test_only_public_data_sets_can_be_fetched():
    with pytest.raises(ConfigError, match=r"'netflix' is no public data set; .* gowalla, yelp2020"):
        fetch("netflix")


def test_synthetic_is_the_same_data_under_every_split_seed():
    one, other = load("synthetic", seed=1), load("synthetic", seed=2)
    assert one.fingerprint != other.fingerprint
    assert one.num_entities == other.num_entities == 2_500 + 1_800
    assert load("synthetic", protocol="time").protocol["name"] == "time"


def test_a_folder_is_found_by_path_and_by_its_name_in_the_data_directory(root, tmp_path):
    mine = folder_of(root / "mine")
    away = folder_of(tmp_path / "away")
    found = [load("mine"), load(mine), load(str(away))]
    assert len({splits.fingerprint for splits in found}) == 1


def test_a_path_is_never_taken_for_a_name(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder_of(tmp_path / "tiny", test=b"0 3\n")
    assert len(load(Path("tiny")).test) == 1
    assert len(load("tiny").test) == 2


def test_a_file_is_read_with_the_options_and_split(tmp_path):
    file = tmp_path / "ratings.csv"
    rows = [f"{user},{item},{item % 5}" for user in range(6) for item in range(10)]
    file.write_text("\n".join(["user,item,rating", *rows]))
    splits = load(file, min_rating=1, format=None, seed=3)
    assert len(splits.train) + len(splits.valid) + len(splits.test) == 6 * 8
    assert (splits.protocol["name"], splits.protocol["seed"]) == ("random", 3)


@pytest.mark.parametrize("option", [{"min_rating": 4}, {"protocol": "time"}])
def test_options_that_a_ready_made_split_cannot_follow_are_refused(tmp_path, option):
    folder = folder_of(tmp_path / "mine")
    with pytest.raises(ConfigError, match=f"is split already: {next(iter(option))} cannot"):
        load(folder, **option)


def test_options_of_reading_are_refused_for_generated_data():
    with pytest.raises(ConfigError, match="synthetic is generated, not read: k_core"):
        load("synthetic", k_core=5)


def test_an_unknown_name_is_answered_with_those_that_exist(root):
    folder_of(root / "mine")
    with pytest.raises(DataError, match=r"netflix: no such file .* synthetic, gowalla, .*, mine"):
        load("netflix")


def test_what_is_available_is_said_with_where_it_comes_from(root):
    (root / ".gowalla.part").mkdir(parents=True)
    mine = folder_of(root / "mine")
    names = available()
    assert list(names) == ["synthetic", "gowalla", "yelp2020", "mine"]
    assert (names["synthetic"], names["mine"]) == ("generated", str(mine))


@pytest.mark.skipif(sys.platform != "linux", reason="the cache folder of Linux")
def test_data_lives_in_the_users_cache_unless_told_otherwise(monkeypatch, root):
    assert data_dir() == root
    monkeypatch.delenv("CERP_DATA_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert data_dir() == Path("/somewhere/cerp")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/ann")
    assert data_dir() == Path("/home/ann/.cache/cerp")


@pytest.mark.slow
def test_gowalla_is_the_split_of_the_paper(shared_data):
    shared_data("gowalla")
    splits = load("gowalla")
    assert splits.num_entities == 70_839
    assert len(splits.train_and_valid) + len(splits.test) == 1_027_370


def test_three_tables_are_a_ready_made_split(tmp_path: Path):
    (tmp_path / "train.csv").write_text("user,item\nann,x\nann,y\nbob,x\n")
    (tmp_path / "valid.csv").write_text("user,item\nann,z\nbob,y\n")
    (tmp_path / "test.csv").write_text("user,item\nbob,z\ncid,x\n")
    splits = load(tmp_path)
    assert [len(splits.part(name)) for name in ("train", "valid", "test")] == [3, 2, 2]
    assert splits.users.values.tolist() == ["ann", "bob", "cid"]
    assert splits.protocol == {"name": "ready-made"}


def test_tables_of_a_split_are_found_in_any_case(tmp_path: Path):
    for name, row in (("TRAIN.CSV", "1,2\n2,1"), ("TEST.CSV", "1,1\n2,2")):
        (tmp_path / name).write_text(f"user,item\n{row}\n")
    assert len(load(tmp_path).test) == 2


def test_two_tables_get_a_validation_part(tmp_path: Path):
    rows = "".join(f"{user},{item}\n" for user in range(5) for item in range(20))
    (tmp_path / "train.csv").write_text("user,item\n" + rows)
    (tmp_path / "test.csv").write_text("user,item\n0,20\n1,21\n")
    splits = load(tmp_path, seed=2)
    assert (len(splits.train), len(splits.valid)) == (90, 10)


def test_two_candidates_for_a_part_are_a_question(tmp_path: Path):
    for name in ("train.csv", "train.tsv", "test.csv"):
        (tmp_path / name).write_text("user,item\n1,2\n2,1\n")
    with pytest.raises(DataError, match=r"both train\.csv and train\.tsv could be the train part"):
        load(tmp_path)
