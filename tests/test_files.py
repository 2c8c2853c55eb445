from __future__ import annotations

from pathlib import Path

import pytest

from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError
from cerp.files import make_folder, refuse_unwritable, write_text


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
