"""How much a row counts: read, added up, kept with the split, and told apart from other weights."""

import json

import numpy as np
import pandas
import pyarrow
import pytest

import cerp
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.errors import ConfigError, DataError

ROWS = {"user": ["ann", "ann", "bo", "ann", "bo"], "item": [1, 2, 2, 1, 3], "n": [2, 1, 4, 3, 0.5]}
ADDED_UP = {("ann", 1): 5.0, ("ann", 2): 1.0, ("bo", 2): 4.0, ("bo", 3): 0.5}
"""The pair that is there twice has 2 + 3."""


def by_pair(data: Interactions) -> dict[tuple[str, int], float]:
    pairs = zip(data.users.decode(data.user), data.items.decode(data.item), strict=True)
    return dict(zip(pairs, data.weight.tolist(), strict=True))


def as_csv(folder):
    pandas.DataFrame(ROWS).to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def as_parquet(folder):
    pandas.DataFrame(ROWS).to_parquet(folder / "rows.parquet")
    return folder / "rows.parquet"


def as_json_lines(folder):
    lines = [dict(zip(ROWS, row, strict=True)) for row in zip(*ROWS.values(), strict=True)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    return folder / "rows.jsonl"


SOURCES = (
    as_csv,
    as_parquet,
    as_json_lines,
    lambda _: pandas.DataFrame(ROWS),
    lambda _: pyarrow.table(ROWS).to_reader(),
)


@pytest.mark.parametrize("source", SOURCES)
def test_weights_of_a_repeated_pair_are_added_up_whatever_the_source(source, tmp_path):
    assert by_pair(cerp.read(source(tmp_path), weight="n")) == ADDED_UP


@pytest.mark.parametrize("source", SOURCES)
def test_without_a_word_no_column_is_taken_for_weights(source, tmp_path):
    assert cerp.read(source(tmp_path)).weight is None


def test_weights_may_have_a_decimal_comma_and_a_position(tmp_path):
    (tmp_path / "rows.csv").write_text("ann;1;0,5\nbo;1;2\nbo;2;1\n", "utf-8")
    data = cerp.read(tmp_path / "rows.csv", weight=2, decimal=",")
    assert by_pair(data) == {("ann", 1): 0.5, ("bo", 1): 2.0, ("bo", 2): 1.0}


@pytest.mark.parametrize("bad", ["0", "-1", "much", "", "inf", "nan"])
def test_a_weight_that_is_no_positive_number_is_refused_with_its_line(bad, tmp_path):
    (tmp_path / "rows.csv").write_text(f"user,item,n\nann,1,2\nbo,2,{bad}\n", "utf-8")
    with pytest.raises(DataError, match=r"line 3: the weight .* is not a positive number"):
        cerp.read(tmp_path / "rows.csv", weight="n")


@pytest.mark.parametrize("bad", [0, -1.0, None, "much"])
def test_a_bad_weight_of_a_frame_is_refused_with_its_row(bad):
    frame = pandas.DataFrame(
        {"user": [1, 2], "item": [1, 2], "n": pandas.Series([1, bad], dtype=object)}
    )
    with pytest.raises(DataError, match="row 2: the weight"):
        cerp.read(frame, weight="n")


def test_rows_that_a_condition_leaves_out_may_have_any_weight(tmp_path):
    (tmp_path / "rows.csv").write_text("user,item,n\nann,1,2\nbo,2,1\nbo,1,0\n", "utf-8")
    data = cerp.read(tmp_path / "rows.csv", weight="n", where="n > 0")
    assert by_pair(data) == {("ann", 1): 2.0, ("bo", 2): 1.0}


def test_a_source_without_columns_has_no_weights(tmp_path):
    (tmp_path / "rows.txt").write_text("0 1 2 3 4\n1 2 3\n", "utf-8")
    with pytest.raises(ConfigError, match="weight cannot be used with the LightGCN"):
        cerp.read(tmp_path / "rows.txt", weight=1)


def test_weights_of_arrays_are_checked():
    with pytest.raises(DataError, match="1 weights for 2 interactions"):
        Interactions.from_ids([1, 2], [1, 2], weight=[1.0])
    with pytest.raises(DataError, match="positive"):
        Interactions.from_ids([1, 2], [1, 2], weight=[1.0, 0.0])


def weighted(seed: int = 0) -> Interactions:
    rng = np.random.default_rng(seed)
    taken = rng.random((12, 9)) < 0.6
    user, item = np.nonzero(taken)
    return Interactions.from_ids(user, item, weight=1 + rng.integers(9, size=len(user)))


def test_each_part_of_a_split_keeps_the_weights_of_its_pairs():
    data = weighted()
    whole = by_pair(data)
    splits = data.split(seed=3)
    for part in (splits.train, splits.valid, splits.test, splits.train_and_valid):
        assert by_pair(part) == {pair: whole[pair] for pair in by_pair(part)}


def test_a_saved_split_has_its_weights_when_it_is_loaded(tmp_path):
    splits = weighted().split(seed=3)
    splits.save(tmp_path / "split")
    loaded = Splits.load(tmp_path / "split")
    for name in ("train", "valid", "test"):
        np.testing.assert_array_equal(loaded.part(name).weight, splits.part(name).weight)
    assert loaded.learning_fingerprint == splits.learning_fingerprint


def test_weights_that_do_not_fit_a_saved_split_are_refused(tmp_path):
    weighted().split(seed=3).save(tmp_path / "split")
    (tmp_path / "split" / "weights.safetensors").write_bytes(b"nothing")
    with pytest.raises(DataError, match="a positive weight for each interaction"):
        Splits.load(tmp_path / "split")


def test_other_weights_are_other_data_to_learn_from_and_the_same_to_judge_by():
    data = weighted()
    doubled = Interactions.from_codes(
        data.user, data.item, users=data.users, items=data.items, weight=data.weight**2
    )
    one, other = data.split(seed=3), doubled.split(seed=3)
    assert one.fingerprint == other.fingerprint
    assert one.learning_fingerprint != other.learning_fingerprint


def test_without_weights_there_is_one_fingerprint():
    data = weighted()
    plain = Interactions.from_codes(data.user, data.item, users=data.users, items=data.items)
    splits = plain.split(seed=3)
    assert splits.learning_fingerprint == splits.fingerprint
