"""Model files on the Hugging Face Hub, by its own client against a stand-in on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

import cerp
from cerp.errors import ConfigError, DownloadError, FileFormatError, MissingExtra
from local_hub import LocalHub, local_hub

GOLDEN = Path(__file__).parents[1] / "golden"
TINY = GOLDEN / "tiny.cerp"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with local_hub() as server:
        for name, value in {
            "ENDPOINT": server.url,
            "HUGGINGFACE_CO_URL_TEMPLATE": server.url + "/{repo_id}/resolve/{revision}/{filename}",
            "HF_HUB_CACHE": str(tmp_path / "cache"),
            "HF_HUB_DISABLE_IMPLICIT_TOKEN": True,
            "HF_HUB_OFFLINE": False,
        }.items():
            monkeypatch.setattr(constants, name, value)
        monkeypatch.setenv("HF_TOKEN", "hf_of_nobody")
        yield server


def test_what_is_saved_is_what_is_loaded(hub: LocalHub):
    address = cerp.save_to_hub(TINY, "shop/tiny")
    assert hub.files("shop/tiny")["model.cerp"] == TINY.read_bytes()
    here, there = cerp.load(TINY), cerp.load("hf://shop/tiny")
    assert there.recommend("ann", k=2) == here.recommend("ann", k=2)
    assert address == f"hf://shop/tiny@{hub.commits['shop/tiny'][-1][0]}"


def test_an_address_with_a_commit_stays_what_it_was(hub: LocalHub):
    first = cerp.save_to_hub(TINY, "shop/tiny")
    other = next(path for path in sorted(GOLDEN.glob("*.cerp")) if path != TINY)
    second = cerp.save_to_hub(other, "shop/tiny")
    assert cerp.load(first).file_bytes == TINY.stat().st_size
    assert cerp.load(second).file_bytes == other.stat().st_size
    assert cerp.load("hf://shop/tiny").file_bytes == other.stat().st_size


def test_a_new_repository_is_private_unless_told_otherwise(hub: LocalHub):
    cerp.save_to_hub(TINY, "shop/one")
    cerp.save_to_hub(TINY, "shop/two", private=False)
    assert [made["visibility"] for made in hub.made] == ["private", "public"]


def test_the_card_says_sizes_and_whether_interactions_are_in_the_file(hub: LocalHub):
    cerp.save_to_hub(TINY, "shop/tiny")
    card = hub.files("shop/tiny")["README.md"].decode("utf-8")
    assert card.startswith("---\nlibrary_name: cerp\n")
    assert f"| bytes | {TINY.stat().st_size:,} |" in card
    assert 'cerp.load("hf://shop/tiny")' in card
    assert "The file holds the interactions that it was trained on" in card


def test_what_is_no_model_file_is_not_sent(hub: LocalHub, tmp_path: Path):
    (tmp_path / "model.cerp").write_bytes(b"something else")
    with pytest.raises(FileFormatError):
        cerp.save_to_hub(tmp_path / "model.cerp", "shop/tiny")
    assert hub.commits == {}


def test_a_file_on_the_hub_that_is_damaged_is_refused(hub: LocalHub):
    cerp.save_to_hub(TINY, "shop/tiny")
    hub.files("shop/tiny")["model.cerp"] = TINY.read_bytes()[:-1]
    with pytest.raises(FileFormatError):
        cerp.load("hf://shop/tiny")


def test_a_hub_that_refuses_or_lacks_the_file_is_told_in_words(hub: LocalHub):
    with pytest.raises(DownloadError, match=r"hf://shop/none: model\.cerp cannot be fetched"):
        cerp.load("hf://shop/none")
    hub.refuses_writing = True
    with pytest.raises(DownloadError, match="shop/tiny on the Hugging Face Hub cannot be written"):
        cerp.save_to_hub(TINY, "shop/tiny")


@pytest.mark.parametrize("address", ["hf://", "hf://shop", "hf://shop/a/b", "hf://shop/a b"])
def test_an_address_that_is_none_is_refused(address: str):
    with pytest.raises(ConfigError, match="write hf://owner/name"):
        cerp.load(address)


@pytest.mark.parametrize("repo", ["shop", "shop/a/b", "shop/tiny@main"])
def test_a_repository_that_is_none_is_refused(repo: str):
    with pytest.raises(ConfigError, match="write owner/name"):
        cerp.save_to_hub(TINY, repo)


def test_without_its_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match=r"cerp\[hub\]"):
        cerp.load("hf://shop/tiny")
