from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cerp.data.download import download
from cerp.errors import ConfigError, DownloadError
from local_server import LocalServer, serving

CONTENT = bytes(range(256)) * 1000


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    with serving(monkeypatch) as server:
        server.files["/file"] = CONTENT
        yield server


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "file"


def part_of(target: Path, content: bytes) -> Path:
    part = target.with_name("file.part")
    part.parent.mkdir(parents=True)
    part.write_bytes(content)
    return part


def test_a_download_is_the_file_and_leaves_nothing_else(server, target):
    download(f"{server.url}/file", target)
    assert target.read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]


def test_an_empty_file_is_a_file(server, target):
    server.files["/empty"] = b""
    download(f"{server.url}/empty", target)
    assert target.read_bytes() == b""


def test_a_broken_off_connection_is_resumed_and_only_the_rest_is_sent(server, target):
    server.break_off_after = [100_000]
    download(f"{server.url}/file", target)
    assert target.read_bytes() == CONTENT
    asked = [(answer.asked_range, answer.sent) for answer in server.answers]
    assert asked == [(None, 100_000), ("bytes=100000-", 256_000 - 100_000)]


@pytest.mark.parametrize("have", [1, 128_000, len(CONTENT) - 1])
def test_the_part_of_an_earlier_run_is_continued(server, target, have):
    part_of(target, CONTENT[:have])
    download(f"{server.url}/file", target)
    assert target.read_bytes() == CONTENT
    assert [answer.sent for answer in server.answers] == [len(CONTENT) - have]


def test_without_range_support_everything_is_sent_again(server, target):
    server.knows_ranges = False
    part_of(target, CONTENT[:500])
    download(f"{server.url}/file", target)
    assert target.read_bytes() == CONTENT
    assert [(answer.status, answer.sent) for answer in server.answers] == [(200, len(CONTENT))]


@pytest.mark.parametrize("surplus", [b"", b"surplus"])
def test_a_part_that_is_not_shorter_than_the_file_is_thrown_away(server, target, surplus):
    part_of(target, CONTENT + surplus)
    download(f"{server.url}/file", target)
    assert target.read_bytes() == CONTENT
    assert [answer.status for answer in server.answers] == [416, 200]


def test_a_range_that_was_not_asked_for_is_not_appended(server, target):
    server.shift_ranges = 3
    part_of(target, CONTENT[:500])
    download(f"{server.url}/file", target)
    assert target.read_bytes() == CONTENT


def test_a_busy_server_is_asked_again(server, target):
    server.fail_with = [503, 429]
    download(f"{server.url}/file", target)
    assert target.read_bytes() == CONTENT


def test_a_server_that_always_breaks_off_is_given_up_and_the_part_kept(server, target):
    server.break_off_after = [1000, 1000, 1000]
    with pytest.raises(DownloadError, match=r"broke off after 1,000 of 254,000 bytes"):
        download(f"{server.url}/file", target)
    assert target.with_name("file.part").read_bytes() == CONTENT[:3000]
    assert not target.exists()


def test_a_missing_file_is_asked_for_once_and_named(server, target):
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1:\d+/other: .* 404 Not Found"):
        download(f"{server.url}/other", target)
    assert len(server.answers) == 1


def test_a_refused_connection_is_named(server, target):
    server.shutdown()
    server.server_close()
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1:\d+/file: .*refused"):
        download(f"{server.url}/file", target)


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/file", "file:///etc/hostname", "train.txt"])
def test_only_http_is_spoken(url, target):
    with pytest.raises(ConfigError, match="only http:// and https://"):
        download(url, target)
