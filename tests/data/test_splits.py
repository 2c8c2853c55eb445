from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerp.cli import app
from cerp.data import merging, protocols, sorting
from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.splits import PARTS, Splits, split
from cerp.errors import ConfigError, DataError
from text_splits import save_as_text


def pairs(part: Interactions) -> set[tuple[object, object]]:
    return set(zip(part.users.decode(part.user), part.items.decode(part.item), strict=True))


def uniform(users: int, items_each: int) -> Interactions:
    user = np.repeat(np.arange(users), items_each)
    item = (np.tile(np.arange(items_each), users) * 7 + user) % (items_each * 8)
    return Interactions.from_ids(user, item, time=np.arange(len(user))[::-1])


ROWS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 30)), min_size=2, unique=True)


@given(ROWS, st.integers(0, 5), st.sampled_from(["random", "leave-last-out"]))
def test_the_parts_are_a_partition_and_every_user_keeps_a_training_item(rows, seed, protocol):
    user, item = zip(*rows, strict=True)
    data = Interactions.from_ids(user, item, time=np.arange(len(rows)) % 5)
    splits = split(data, protocol, seed=seed)
    parts = [pairs(splits.part(name)) for name in PARTS]
    assert set.union(*parts) == set(rows)
    assert sum(map(len, parts)) == len(rows)
    assert {u for u, _ in parts[0]} == set(user)


def test_random_takes_a_fifth_for_test_and_a_tenth_of_the_rest_for_validation():
    splits = uniform(users=4, items_each=50).split(seed=1)
    # 50 items: 10 to test, 10% of the other 40 to validation.
    for name, expected in (("train", 36), ("valid", 4), ("test", 10)):
        assert np.bincount(splits.part(name).user).tolist() == [expected] * 4


def test_random_is_the_same_however_many_rows_are_drawn_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    data = Interactions.from_ids(rng.integers(0, 40, 600), rng.integers(0, 90, 600))
    whole = split(data, seed=3)
    for module in (sorting, merging):
        monkeypatch.setattr(module, "STRETCH", 7)
    assert split(data, seed=3).fingerprints == whole.fingerprints


def test_a_share_of_each_user_is_drawn_by_the_order_of_random_numbers():
    data = uniform(6, 5)
    drawn = protocols.drawn_per_user(data, 0.4, np.random.default_rng(1))
    numbers = np.random.default_rng(1).random(len(data))
    for user in range(6):
        own = data.user == user
        assert np.array_equal(drawn[own], np.argsort(np.argsort(numbers[own])) < 2)


def test_the_seed_decides():
    data = uniform(users=20, items_each=20)
    prints = [data.split(seed=seed).fingerprint for seed in (0, 0, 1)]
    assert prints[0] == prints[1] != prints[2]


def test_leave_last_out_takes_the_two_latest():
    data = Interactions.from_ids(
        [1] * 4 + [2] * 2 + [3], [5, 6, 7, 8, 5, 6, 5], time=[4, 1, 3, 2, 9, 8, 1]
    )
    splits = split(data, "leave-last-out")
    assert pairs(splits.test) == {(1, 5), (2, 5)}
    assert pairs(splits.valid) == {(1, 7)}
    assert pairs(splits.train) == {(1, 6), (1, 8), (2, 6), (3, 5)}


def test_a_time_split_cuts_the_whole_log_and_keeps_equal_times_together():
    # Ten rows; the 20% cut falls inside the run of time 8, which goes to test whole.
    data = Interactions.from_ids([1] * 10, range(10), time=[1, 2, 3, 4, 5, 6, 7, 8, 8, 8])
    splits = split(data, "time")
    assert pairs(splits.test) == {(1, 7), (1, 8), (1, 9)}
    assert pairs(splits.valid) == {(1, 6)}
    assert splits.protocol["test_from"] == 8


def test_a_time_split_of_one_moment_is_refused():
    data = Interactions.from_ids([1, 2], [3, 4], time=[5, 5])
    with pytest.raises(DataError, match="needs different times"):
        split(data, "time")


def test_protocols_that_need_times_say_so():
    with pytest.raises(ConfigError, match="'leave-last-out' needs times"):
        split(Interactions.from_ids([1, 2], [3, 4]), "leave-last-out")


def test_an_unknown_protocol_lists_the_known():
    with pytest.raises(ConfigError, match="choose one of random, leave-last-out, time"):
        split(Interactions.from_ids([1, 2], [3, 4]), "loo")


def test_ready_made_parts_get_one_id_space_with_the_unseen():
    train = Interactions.from_ids([10, 2], [5, 6])
    valid = Interactions.from_ids([2], [7])
    test = Interactions.from_ids([4], [1])
    splits = Splits.of_parts(train, valid, test)
    assert splits.users.values.tolist() == [2, 4, 10]
    assert splits.items.values.tolist() == [1, 5, 6, 7]
    assert splits.num_entities == 7
    assert pairs(splits.test) == {(4, 1)}


def test_string_parts_are_numbered_from_train_to_test():
    train, valid, test = (
        Interactions.from_ids(*ids) for ids in ((["z"], ["q"]), (["b"], ["q"]), (["a"], ["q"]))
    )
    assert Splits.of_parts(train, valid, test).users.values.tolist() == ["z", "b", "a"]


def test_parts_with_integer_and_string_ids_do_not_mix():
    with pytest.raises(DataError, match="integers in one part and strings in another"):
        Splits.of_parts(
            Interactions.from_ids([1], [1]),
            Interactions.from_ids(["1"], ["1"]),
            Interactions.from_ids([1], [1]),
        )


def test_overlapping_parts_are_refused_with_an_example():
    train = Interactions.from_ids([1, 1], [5, 6])
    with pytest.raises(
        DataError, match="1 interactions are in both train and test, such as user 1 with item 6"
    ):
        Splits.of_parts(train, Interactions.from_ids([1], [9]), Interactions.from_ids([1], [6]))


def test_masking_grows_from_train_at_validation_to_train_and_valid_at_test():
    splits = uniform(users=3, items_each=20).split()
    assert splits.seen_before("valid") is splits.train
    assert pairs(splits.seen_before("test")) == pairs(splits.train) | pairs(splits.valid)
    with pytest.raises(ConfigError, match="not 'train'"):
        splits.seen_before("train")


def test_parts_are_joined_some_users_at_a_time(monkeypatch):
    monkeypatch.setattr(merging, "STRETCH", 3)
    splits = split(uniform(9, 10))
    together = splits.train_and_valid
    assert pairs(together) == pairs(splits.train) | pairs(splits.valid)
    assert (np.diff(together.keys()) > 0).all()
    assert splits.fingerprints["train+valid"] == together.fingerprint
    assert splits.parts_before("valid") == (splits.train,)
    assert splits.parts_before("test") == (splits.train, splits.valid)


def test_an_overlap_of_late_users_is_found(monkeypatch):
    monkeypatch.setattr(merging, "STRETCH", 3)
    data = uniform(9, 10)
    first, second = data.subset(data.user < 9), data.subset(data.user == 8)
    with pytest.raises(DataError, match="10 interactions are in both train and test"):
        Splits(first, data.subset(data.user > 8), second)


def test_withholding_the_test_part_changes_nothing_else():
    splits = uniform(users=20, items_each=10).split(seed=0)
    found = splits.without_test()
    assert len(splits.test) > 0
    assert len(found.test) == 0
    assert (found.train, found.valid) == (splits.train, splits.valid)
    assert found.num_entities == splits.num_entities


@pytest.mark.parametrize("ids", [lambda n: n, lambda n: n * 3 + 1, lambda n: f"née {n}\n,"])
def test_saved_and_loaded_it_is_the_same(tmp_path: Path, ids):
    base = uniform(users=6, items_each=10)
    data = Interactions.from_ids(
        [ids(u) for u in base.user.tolist()], [ids(i) for i in base.item.tolist()]
    )
    splits = data.split(seed=4)
    splits.save(tmp_path / "split")
    loaded = Splits.load(tmp_path / "split")
    assert loaded.fingerprints == splits.fingerprints
    assert (loaded.users, loaded.items) == (splits.users, splits.items)
    assert loaded.protocol == splits.protocol


@pytest.mark.parametrize("ids", [lambda n: n, lambda n: f"née {n}\n,"])
def test_titles_are_kept_by_saving_and_by_refits(tmp_path: Path, ids):
    base = uniform(users=6, items_each=10)
    data = Interactions.from_ids(base.user.tolist(), [ids(i) for i in base.item.tolist()])
    titles = {ids(0): "Zéro", ids(7): "Seven"}
    splits = replace(data, titles=titles).split(seed=4)
    splits.save(tmp_path / "split")
    assert Splits.load(tmp_path / "split").titles == titles
    assert splits.refit("train+valid").titles == splits.refit("all").titles == titles


def test_titles_of_all_parts_come_together():
    parts = [
        replace(Interactions.from_ids(["u"], [item]), titles={item: item.upper()})
        for item in ("a", "b", "c")
    ]
    assert Splits.of_parts(*parts).titles == {"a": "A", "b": "B", "c": "C"}


@pytest.mark.parametrize("text", ['["Zero"]', "3", json.dumps([7] * 60), '{"0": "Zero"}'])
def test_titles_that_do_not_fit_the_items_are_refused(tmp_path: Path, text: str):
    data = replace(uniform(users=6, items_each=10), titles={0: "Zero"})
    data.split(seed=4).save(tmp_path / "split")
    (tmp_path / "split" / "titles.json").write_text(text)
    with pytest.raises(DataError, match="must hold a title or null for each of the 60 items"):
        Splits.load(tmp_path / "split")


@settings(max_examples=25)
@given(ROWS, st.sampled_from(["random", "leave-last-out"]), st.booleans())
def test_whatever_was_saved_loads_equal(tmp_path_factory, rows, protocol, are_strings):
    user, item = zip(*rows, strict=True)
    ids = [f"u{u}" for u in user] if are_strings else user
    splits = split(Interactions.from_ids(ids, item, time=range(len(rows))), protocol)
    folder = tmp_path_factory.mktemp("saved") / "split"
    splits.save(folder)
    assert Splits.load(folder).meta() == splits.meta()
    save_as_text(splits, folder.with_name("text"))
    assert Splits.load(folder.with_name("text")).meta() == splits.meta()


def test_a_saved_part_is_its_pairs_and_their_digest_its_fingerprint(tmp_path: Path):
    splits = uniform(users=3, items_each=10).split()
    splits.save(tmp_path / "split")
    pairs = np.load(tmp_path / "split" / "train.npy")
    assert pairs.tolist() == [
        [user, item]
        for user, item in zip(splits.train.user.tolist(), splits.train.item.tolist(), strict=True)
    ]
    assert hashlib.sha256(pairs.tobytes()).hexdigest() == splits.train.fingerprint


@pytest.mark.parametrize(
    ("name", "pairs", "message"),
    [
        ("train", np.zeros((0, 2), "<i4"), "the fingerprint is"),
        ("test", np.zeros((3, 2), "<i8"), "an array of int64 in the shape"),
        ("valid", np.zeros(6, "<i4"), "an array of int32 in the shape"),
        ("valid", None, "no array of pairs"),
    ],
)
def test_an_array_that_is_not_what_was_saved_is_noticed(tmp_path: Path, name, pairs, message):
    uniform(users=3, items_each=10).split().save(tmp_path / "split")
    path = tmp_path / "split" / f"{name}.npy"
    path.unlink()
    if pairs is not None:
        np.save(path, pairs)
    with pytest.raises(DataError, match=message):
        Splits.load(tmp_path / "split")


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([[0, 1], [0, 0]], "not sorted by user and item"),
        ([[0, 1], [0, 1]], "not distinct"),
        ([[0, 999]], "does not fit the other files"),
        ([[-1, 0]], "does not fit the other files"),
    ],
)
def test_pairs_that_no_split_has_are_refused_without_fingerprints(tmp_path: Path, pairs, message):
    folder = tmp_path / "split"
    uniform(users=3, items_each=10).split().save(folder)
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps({"users": meta["users"], "items": meta["items"]}))
    np.save(folder / "train.npy", np.array(pairs, "<i4"))
    with pytest.raises(DataError, match=message):
        Splits.load(folder)


def test_users_with_one_interaction_each_leave_valid_and_test_empty(tmp_path: Path, capsys):
    rows = "".join(f"{user},{user % 7}\n" for user in range(100))
    (tmp_path / "singles.csv").write_text("user,item\n" + rows)
    folder = str(tmp_path / "split")
    app(["data", "split", str(tmp_path / "singles.csv"), "-o", folder], standalone_mode=False)
    app(["data", "info", folder], standalone_mode=False)
    assert "the test part is empty" in capsys.readouterr().err
    assert [len(Splits.load(folder).part(name)) for name in PARTS] == [100, 0, 0]


@pytest.mark.parametrize("name", ["train", "valid", "test"])
def test_a_file_that_lost_its_content_is_still_noticed(tmp_path: Path, name: str):
    save_as_text(uniform(users=3, items_each=10).split(), tmp_path / "split")
    (tmp_path / "split" / f"{name}.txt").write_text("")
    with pytest.raises(DataError, match=rf"{name}\.txt: the file is empty"):
        Splits.load(tmp_path / "split")


def test_a_split_without_training_is_refused(tmp_path: Path):
    (tmp_path / "train.txt").write_text("")
    (tmp_path / "test.txt").write_text("0 1\n")
    (tmp_path / "meta.json").write_text('{"train": 0}')
    with pytest.raises(DataError, match="the training part is empty"):
        Splits.load(tmp_path)


def test_users_without_any_line_survive_saving(tmp_path: Path):
    ids = {"users": Ids.range(5), "items": Ids.range(4)}
    parts = [Interactions.from_codes([u], [i], **ids) for u, i in ((0, 1), (0, 2), (1, 3))]
    Splits(*parts).save(tmp_path / "split")
    assert Splits.load(tmp_path / "split").num_users == 5


def test_saving_leaves_nothing_behind_and_never_overwrites(tmp_path: Path):
    splits = uniform(users=3, items_each=10).split()
    splits.save(tmp_path / "split")
    with pytest.raises(ConfigError, match="exists already"):
        splits.save(tmp_path / "split")
    assert [path.name for path in tmp_path.iterdir()] == ["split"]


def test_a_changed_file_is_noticed(tmp_path: Path):
    splits = uniform(users=3, items_each=10).split()
    save_as_text(splits, tmp_path / "split")
    taken = splits.train.item[splits.train.user == 0].tolist()
    test = tmp_path / "split" / "test.txt"
    user, first, *others = test.read_text().split("\n")[0].split()
    free = next(str(i) for i in range(30) if i not in taken and str(i) not in (first, *others))
    test.write_text(test.read_text().replace(f"{user} {first}", f"{user} {free}", 1))
    with pytest.raises(
        DataError, match=r"fingerprint of test is \w+, meta\.json says \w+; the files"
    ):
        Splits.load(tmp_path / "split")


@pytest.mark.parametrize(
    ("added", "message"),
    [("500 1", "user '500' is not among the users 0 to"), ("0 x", "item 'x' is not among")],
)
def test_a_line_that_was_edited_is_named(tmp_path: Path, added: str, message: str):
    save_as_text(uniform(users=3, items_each=10).split(), tmp_path / "split")
    path = tmp_path / "split" / "train.txt"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, "", added]))
    with pytest.raises(DataError, match=f"train.txt, line {len(lines) + 2}: {message}"):
        Splits.load(tmp_path / "split")


def test_a_wrong_count_in_meta_is_noticed(tmp_path: Path):
    uniform(users=3, items_each=10).split().save(tmp_path / "split")
    meta = json.loads((tmp_path / "split" / "meta.json").read_text())
    (tmp_path / "split" / "meta.json").write_text(json.dumps(meta | {"train": 99}))
    with pytest.raises(DataError, match=r"meta\.json says 99 train, the files hold 21"):
        Splits.load(tmp_path / "split")


def test_without_a_validation_file_it_is_carved_from_training(tmp_path: Path):
    (tmp_path / "train.txt").write_text("0 " + " ".join(map(str, range(20))) + "\n1 0\n")
    (tmp_path / "test.txt").write_text("0 20\n1\n2 21\n")
    splits = Splits.load(tmp_path, seed=1)
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (19, 2, 2)
    assert splits.num_users == 3
    assert splits.protocol == {"name": "ready-made, validation carved", "seed": 1}


def test_a_folder_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"missing: no such folder; .* Splits.save writes"):
        Splits.load(tmp_path / "missing")


def test_a_folder_without_a_split_says_what_it_looked_for(tmp_path: Path):
    (tmp_path / "ratings.csv").write_text("a")
    with pytest.raises(DataError, match=r"holds train.txt, test.txt .* found ratings.csv"):
        Splits.load(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("0 -1\n", "item id -1 is negative"),
        ("0 99999999999999999999\n", "item id 9+ is above 9223372036854775803"),
        (f"{2**63 - 1} 0\n", "user id 9223372036854775807 is above"),
        (b"\xff\xfe0 1\n", "not UTF-8"),
    ],
)
def test_bad_lightgcn_text_is_named(tmp_path: Path, text, message):
    (tmp_path / "train.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    (tmp_path / "test.txt").write_text("0 1\n")
    with pytest.raises(DataError, match=message):
        Splits.load(tmp_path)


def test_leading_zeros_in_one_file_make_ids_strings_in_all(tmp_path: Path):
    (tmp_path / "train.txt").write_text("007 1 2 3\n7 1 2\n")
    (tmp_path / "test.txt").write_text("7 3\n")
    splits = Splits.load(tmp_path)
    assert splits.users.values.tolist() == ["007", "7"]
    assert splits.items.are_integers


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gowalla", "ml-1m", "lastfm", "amazon-beauty"])
def test_published_fingerprints_are_reproduced(shared_data, name):
    folder = shared_data(name)
    meta = json.loads((folder / "meta.json").read_text())
    splits = Splits.load(folder)
    assert splits.fingerprints == meta["sha256"]
    assert {key: splits.meta()[key] for key in ("users", "items", *PARTS)} == {
        key: meta[key] for key in ("users", "items", *PARTS)
    }
