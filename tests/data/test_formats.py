"""File formats of other packages, and the rule that a new one is a file and a line."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import cerp
from cerp.data.formats.base import FORMATS, FileFormat, SourceFile
from cerp.data.formats.columns import Wanted
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError, DataError

PLUG_IN = """
from cerp.data.formats.base import FileFormat
from cerp.data.interactions import Interactions

def read(file, wanted):
    pairs = [line.split("->") for line in file.plain.read_text().split()]
    return Interactions.from_ids([user for user, _ in pairs], [item for _, item in pairs])

FORMAT = FileFormat("arrows", read, (".arrows",), options=frozenset())
"""


@pytest.fixture
def arrows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in a format that an installed package reads."""
    (tmp_path / "arrow_package.py").write_text(PLUG_IN)
    monkeypatch.syspath_prepend(tmp_path)
    entry = EntryPoint("arrows", "arrow_package:FORMAT", "cerp.formats")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [entry])
    monkeypatch.setattr(FORMATS, "_parts", dict(FORMATS._parts))
    path = tmp_path / "taken.arrows"
    path.write_text("ann->tea\nann->jam\nbo->tea\n")
    return path


def test_a_format_of_another_package_is_recognised_by_its_suffix(arrows: Path):
    data = cerp.read(arrows)
    assert data.users.values.tolist() == ["ann", "bo"]
    assert data.items.values.tolist() == ["tea", "jam"]


def test_a_format_of_another_package_can_be_asked_for_by_name(arrows: Path):
    other = arrows.rename(arrows.with_name("taken.txt"))
    assert len(cerp.read(other, format="arrows")) == 3


def test_a_format_of_another_package_makes_split_folders(arrows: Path):
    folder = arrows.parent / "parts"
    folder.mkdir()
    (folder / "train.arrows").write_text(arrows.read_text())
    (folder / "test.arrows").write_text("bo->jam\nann->pie\n")
    assert len(cerp.load_splits(folder).test) == 2


def test_options_that_a_format_does_not_understand_are_refused(arrows: Path):
    with pytest.raises(ConfigError, match="min_rating cannot be used with arrows"):
        cerp.read(arrows, min_rating=3)


def test_a_package_is_imported_only_when_no_format_of_our_own_applies(arrows: Path):
    sys.modules.pop("arrow_package", None)
    table = arrows.with_suffix(".csv")
    table.write_text("user,item\n1,2\n2,3\n")
    cerp.read(table)
    assert "arrow_package" not in sys.modules


def test_an_unknown_suffix_lists_the_formats_of_all_packages(arrows: Path):
    unknown = arrows.rename(arrows.with_suffix(".xls"))
    with pytest.raises(
        DataError, match="one of arrows, csv, duckdb, jsonl, lightgcn, parquet, recbole"
    ):
        cerp.read(unknown)


def test_a_name_is_given_once():
    def read(file: SourceFile, wanted: Wanted) -> Interactions:
        raise NotImplementedError

    with pytest.raises(ConfigError, match="there is a format 'csv' already"):
        FORMATS.add("csv", FileFormat("other", read))


def test_the_same_text_is_the_same_time_in_a_file_and_in_memory(tmp_path: Path):
    times = ["2020-01-01", "2020-01-01T00:00:01.5+01:00", " 2020-02-30 ".replace("30", "29")]
    rows = list(zip("abc", "xyz", times, strict=True))
    (tmp_path / "a.csv").write_text("user,item,time\n" + "".join(f"{','.join(r)}\n" for r in rows))
    (tmp_path / "a.jsonl").write_text(
        "".join(f'{{"user": "{u}", "item": "{i}", "time": "{t}"}}\n' for u, i, t in rows)
    )
    from_file, from_memory = (
        cerp.read(tmp_path / "a.csv").time,
        cerp.read(tmp_path / "a.jsonl").time,
    )
    assert from_file is not None
    assert from_memory is not None
    # 18,262 days after 1970-01-01; 1.5 seconds less an hour; 59 days later.
    day = 86_400_000_000
    assert from_file.tolist() == [18_262 * day, 18_262 * day - 3_598_500_000, 18_321 * day]
    assert from_memory.tolist() == from_file.tolist()
