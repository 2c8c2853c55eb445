"""Parts of a saved split that stay in their files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cerp.data.ids import Int32Array
from cerp.data.splits import PARTS, Splits
from cerp.data.synthetic import synthetic


def large_split() -> Splits:
    return synthetic(300, 200, 15_000).split(seed=1)


def is_mapped(codes: Int32Array) -> bool:
    """Whether they stay in a file until they are looked at."""
    return isinstance(codes.base, np.memmap)


def test_columns_of_a_long_part_are_mapped_and_those_of_a_short_one_read(tmp_path: Path):
    splits = large_split()
    splits.save(tmp_path / "split")
    loaded = Splits.load(tmp_path / "split")
    found = {name: is_mapped(loaded.part(name).user) for name in PARTS}
    assert found == {"train": True, "valid": False, "test": False}
    assert is_mapped(loaded.train.item)
    assert loaded.fingerprints == splits.fingerprints


def test_an_array_that_was_written_row_by_row_is_read_into_memory(tmp_path: Path):
    splits = large_split()
    splits.save(tmp_path / "split")
    path = tmp_path / "split" / "train.npy"
    by_row = np.ascontiguousarray(np.load(path))
    path.unlink()
    np.save(path, by_row)
    loaded = Splits.load(tmp_path / "split")
    assert not is_mapped(loaded.train.user)
    assert loaded.fingerprints == splits.fingerprints


def test_a_mapped_split_can_be_replaced_while_it_is_in_use(tmp_path: Path):
    splits = large_split()
    splits.save(tmp_path / "split")
    loaded = Splits.load(tmp_path / "split")
    loaded.refit("train+valid").save(tmp_path / "split", overwrite=True)
    assert np.array_equal(loaded.train.item, splits.train.item)
    assert len(Splits.load(tmp_path / "split").train) == len(splits.train) + len(splits.valid)
