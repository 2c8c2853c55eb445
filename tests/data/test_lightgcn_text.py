"""Files of plain integers are read at once; what is found is what reading line by line finds."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerp.data.formats import lightgcn_text
from cerp.data.formats.lightgcn_text import parse
from cerp.errors import DataError


def written(folder: Path, text: str) -> Path:
    path = folder / "train.txt"
    path.write_bytes(text.encode())
    return path


def test_plain_integers_are_read_at_once(tmp_path: Path):
    path = written(tmp_path, "\n7 3\t12\r\n  \r8\n 9 0 ")
    found = lightgcn_text._plain(path)
    assert found is not None
    assert found.lines.tolist() == [7, 8, 9]
    assert (found.user.tolist(), found.item.tolist()) == ([7, 7, 9], [3, 12, 0])


@pytest.mark.parametrize("text", ["1 02\n", "1 -2\n", "1 a\n", "1 " + "9" * 19, "1\x0b2\n"])
def test_all_else_is_read_line_by_line(tmp_path: Path, text: str):
    assert lightgcn_text._plain(written(tmp_path, text)) is None


@given(st.text("0123 \t\r\n", max_size=40))
def test_both_ways_find_the_same(tmp_path_factory: pytest.TempPathFactory, text: str):
    path = written(tmp_path_factory.mktemp("text"), text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lightgcn_text, "_plain", lambda path: None)
        wanted = outcome(path)
    assert outcome(path) == wanted


def outcome(path: Path) -> object:
    """What is read, with the types of ids, or the message."""
    try:
        return [(column.dtype, column.tolist()) for column in parse([path])[0]]
    except DataError as error:
        return str(error)


def test_an_odd_file_makes_ids_strings_in_all(tmp_path: Path):
    plain, odd = written(tmp_path, "1 2\n"), tmp_path / "test.txt"
    odd.write_text("1 02\n")
    first, second = parse([plain, odd])
    assert first.item.tolist() == ["2"]
    assert second.item.tolist() == ["02"]
    assert first.user.dtype == np.int64
