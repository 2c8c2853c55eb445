from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError, OutputError
from cerp.files import make_folder, refuse_unwritable, replacing, write_text
from cerp.locks import claimed


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch) -> None:
    """A file called afile and a folder called adir, in the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("afile").touch()
    Path("adir").mkdir()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (".", r"cannot write \.: it is a folder; give the name of a file"),
        ("adir", "cannot write adir: it is a folder; give the name of a file"),
        ("afile/x", "cannot write afile/x: afile is not a folder; choose another place"),
        ("none/x", "cannot write none/x: there is no folder none; create it first"),
    ],
)
def test_a_path_that_no_file_can_have_is_refused_with_what_to_do(path: str, message: str):
    for refuse in (refuse_unwritable, lambda target: write_text(target, "text")):
        with pytest.raises(ConfigError, match=message):
            refuse(Path(path))
    assert sorted(entry.name for entry in Path().iterdir()) == ["adir", "afile"]


def test_a_name_that_is_too_long_is_refused_by_what_the_system_says():
    with pytest.raises(ConfigError, match="File name too long; choose another place"):
        write_text(Path("x" * 300), "text")


@pytest.mark.parametrize("path", ["afile", "afile/x/y"])
def test_no_folder_is_made_of_a_file_or_below_one(path: str):
    with pytest.raises(ConfigError, match=f"cannot write {path}: afile is not a folder"):
        make_folder(Path(path))


def test_a_folder_is_made_with_those_above_it_and_may_be_there():
    make_folder(Path("adir/b/c"))
    make_folder(Path("adir/b/c"))
    assert Path("adir/b/c").is_dir()


def test_a_split_below_a_file_is_refused():
    with pytest.raises(ConfigError, match="cannot write afile/x: afile is not a folder"):
        synthetic(20, 10, 100).split().save("afile/x")


def test_two_writers_of_one_path_do_not_touch_each_others_bytes(monkeypatch):
    def write_as_another_process(_: int) -> None:
        monkeypatch.undo()
        write_text(target, "theirs")
        assert target.read_text() == "theirs"

    target = Path("new").absolute()
    monkeypatch.setattr("os.fsync", write_as_another_process)
    write_text(target, "mine")
    assert target.read_text() == "mine"
    assert not list(target.parent.glob(".*"))


def test_a_writer_that_fails_leaves_what_was_there(monkeypatch):
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    Path("afile").write_text("before")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OutputError, match="what was there before is intact"):
        write_text(Path("afile"), "after")
    assert Path("afile").read_text() == "before"
    assert not list(Path().glob(".*"))


def test_a_new_file_has_the_permissions_that_the_umask_leaves():
    before = os.umask(0o027)
    try:
        write_text(Path("new"), "text")
    finally:
        os.umask(before)
    assert Path("new").stat().st_mode & 0o777 == 0o640


def test_what_a_killed_writer_left_goes_with_a_later_write_of_the_same_file():
    names = (".new.00000000.writing", ".new.11111111.writing", ".new.csv.00000000.writing")
    for name in names:
        Path(name).touch()
    for name in (names[0], names[2]):
        os.utime(name, (0, 0))
    write_text(Path("new"), "text")
    # Those that stay: of a writer that may still be at work, and of another file.
    assert {path.name for path in Path().glob(".*")} == set(names[1:])


def test_overwriting_keeps_who_may_read_a_file():
    Path("afile").chmod(0o600)
    with replacing(Path("afile")) as scratch:
        assert scratch.stat().st_mode & 0o777 == 0o600  # before there is anything to read
        scratch.write_text("secret")
    assert Path("afile").stat().st_mode & 0o777 == 0o600
    assert Path("afile").read_text() == "secret"


@pytest.mark.parametrize("name", ["afile", "not there yet"])
def test_a_link_stays_and_what_it_points_to_is_written(name: str):
    Path("adir/link").symlink_to(Path("..") / name)
    write_text(Path("adir/link"), "text")
    assert Path("adir/link").is_symlink()
    assert Path(name).read_text() == "text"
    assert not list(Path("adir").glob(".*"))


def test_a_device_is_written_to_and_stays_what_it_is(capfd):
    write_text(Path("/dev/stdout"), "text")
    assert capfd.readouterr().out == "text"
    with pytest.raises(OutputError, match="cannot write /dev/full: No space left on device"):
        write_text(Path("/dev/full"), "text")
    assert Path("/dev/full").is_char_device()


def flushed(monkeypatch) -> list[str]:
    """The names of what is flushed to disk, as it is flushed, and of what is renamed."""
    seen: list[str] = []
    replace, rename = Path.replace, Path.rename
    monkeypatch.setattr(
        os, "fsync", lambda fd: seen.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
    )
    for name, function in (("replace", replace), ("rename", rename)):

        def renamed(path: Path, to: Path, do=function) -> Path:
            seen.append("renamed")
            return do(path, to)

        monkeypatch.setattr(Path, name, renamed)
    return seen


def test_a_files_bytes_are_on_disk_before_it_has_its_name_and_the_name_after(monkeypatch):
    seen = flushed(monkeypatch)
    write_text(Path("adir/new"), "text")
    first, *rest = seen
    assert first.endswith(".writing")
    assert rest == ["renamed", str(Path("adir").absolute())]


def test_a_split_is_on_disk_before_it_has_its_name_and_the_name_after(monkeypatch):
    splits = synthetic(20, 10, 100).split()
    seen = flushed(monkeypatch)
    splits.save("adir/split")
    *files, folder, renamed, above = seen
    names = {Path(file).name for file in files}
    assert names == {"train.npy", "valid.npy", "test.npy", "meta.json"}
    assert folder.endswith(".writing")
    assert (renamed, above) == ("renamed", str(Path("adir").absolute()))


def test_a_split_folder_has_the_permissions_that_the_umask_leaves():
    before = os.umask(0o077)
    try:
        synthetic(20, 10, 100).split().save("split")
    finally:
        os.umask(before)
    assert Path("split").stat().st_mode & 0o777 == 0o700


def test_what_killed_writers_left_goes_when_a_folder_is_claimed():
    gone, kept = Path("adir/.plan.json.00000000.writing"), Path("adir/.a.html.00000000.writing")
    folder = Path("adir/.data.11111111.writing")
    folder.mkdir()
    for path in (gone, kept, folder / "train.txt"):
        path.touch()
    with claimed(Path("adir"), ("*.json", "data")):
        assert {path.name for path in Path("adir").iterdir()} == {kept.name, ".lock"}


def test_a_folder_that_cannot_be_listed_is_written_to_all_the_same(tmp_path, monkeypatch):
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "glob", broken)
    write_text(tmp_path / "a", "text")
    assert (tmp_path / "a").read_text() == "text"
