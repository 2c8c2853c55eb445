"""A path is a path: what looks like a pattern, or like an address, names one file."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cerp.data.readers import read
from ways_of_reading import without_cutting

ODD = ("r[1]", "s*", "s?", "[!a]", "**", "a]b[", "~", "file:x")
MINE, OTHERS = {("ann", "x"), ("bob", "y")}, ("r1", "sa", "b", "sa[b", "x")


def frame(pairs: Any) -> pd.DataFrame:
    return pd.DataFrame(sorted(pairs), columns=["user", "item"])


def pairs(path: Path | str) -> set[tuple[Any, Any]]:
    with without_cutting():  # which opens files by itself, and has no patterns
        data = read(path)
    return set(zip(data.users.decode(data.user), data.items.decode(data.item), strict=True))


@pytest.fixture(autouse=True)
def _neighbours(tmp_path: Path, monkeypatch) -> None:
    """Files and folders that the odd names, as patterns, would match."""
    monkeypatch.chdir(tmp_path)
    theirs = frame({("eve", "p"), ("mel", "q")})
    for name in OTHERS:
        theirs.to_csv(f"{name}.csv", index=False)
        theirs.to_parquet(f"{name}.parquet")
        Path(name).mkdir()
        theirs.to_parquet(f"{name}/part-1.parquet")


@pytest.mark.parametrize("name", ODD)
def test_a_file_of_any_name_is_read_itself(name: str):
    frame(MINE).to_csv(Path(f"{name}.csv").absolute(), index=False)
    frame(MINE).to_parquet(Path(f"{name}.parquet").absolute())
    assert pairs(f"{name}.csv") == pairs(f"{name}.parquet") == MINE


@pytest.mark.parametrize("name", ODD)
def test_a_folder_of_any_name_is_read_itself(name: str):
    Path(name).mkdir(exist_ok=True)
    frame(MINE).head(1).to_parquet(Path(f"{name}/part-*.parquet").absolute())
    frame(MINE).tail(1).to_parquet(Path(f"{name}/part-[1].parquet").absolute())
    assert pairs(name) == MINE


def test_what_a_name_says_of_columns_or_compression_is_not_believed():
    Path("user=eve").mkdir()
    frame(MINE).to_csv("user=eve/a.csv", index=False)
    frame(MINE).to_parquet("user=eve/a.parquet")
    assert pairs("user=eve/a.csv") == pairs("user=eve/a.parquet") == MINE
    Path("a.zst").write_text("user,item\nann,x\nbob,y\n")
    data = read("a.zst", format="csv")
    assert set(data.users.values) == {"ann", "bob"}


def test_a_compressed_file_is_read_itself(tmp_path: Path, monkeypatch):
    scratch = tmp_path / "[scratch]"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    Path("s*.csv.gz").write_bytes(gzip.compress(b"user,item\nann,x\nbob,y\n"))
    assert pairs("s*.csv.gz") == MINE
