"""Tables of vectors in files of limited size, read back by id."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cerp
from cerp import artifact
from cerp.compression.compress import Compressed
from cerp.compression.measures import cosine, measure_of, recall, reconstruction
from cerp.compression.plans import Plan, plans
from cerp.errors import BudgetError, ConfigError, DataError

module = importlib.import_module("cerp.compression.compress")

RNG = np.random.default_rng(0)
CENTRES = RNG.normal(size=(40, 12))
VECTORS = (CENTRES[RNG.integers(0, 40, 900)] + 0.3 * RNG.normal(size=(900, 12))).astype(np.float32)
PLAIN_BYTES = VECTORS.nbytes


def small(vectors: Any = VECTORS, ids: Any = None, budget: Any = "9KB", **options: Any):
    return cerp.compress(vectors, ids, budget=budget, verbose=False, **options)


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "TRIED_ITERATIONS", 2)
        patch.setattr(module, "ITERATIONS", 4)
        patch.setattr("cerp.compression.plans.MOST_BOOKS", 4)
        patch.setattr("cerp.compression.plans.MOST_TRIED", 2)
        patch.setattr("cerp.assignment.rotation.TURNS", 2)
        yield


@pytest.fixture(scope="module")
def made(quick: None) -> Compressed:
    return small()


def test_the_file_keeps_its_limit_and_gives_vectors_back(made: Compressed, tmp_path: Path):
    made.save(tmp_path / "small.cerp")
    found = cerp.load(tmp_path / "small.cerp")
    assert isinstance(found, cerp.Lookup)
    assert made.file_bytes == (tmp_path / "small.cerp").stat().st_size <= 9000 < PLAIN_BYTES / 4
    read = found.vectors()
    assert read.shape == VECTORS.shape
    assert read.dtype == np.float32
    assert np.array_equal(found.vectors([7, 899, 7]), read[[7, 899, 7]])
    assert np.array_equal(made.vectors(), read)
    spread = ((VECTORS - VECTORS.mean(axis=0)) ** 2).sum()
    assert ((VECTORS - read) ** 2).sum() < 0.3 * spread


@pytest.mark.parametrize("budget", ["5KB", "14KB", 20_000])
def test_more_bytes_rebuild_better_and_none_is_exceeded(budget: Any):
    limit = budget if isinstance(budget, int) else int(budget[:-2]) * 1000
    found = small(budget=budget, measure="reconstruction")
    assert found.file_bytes <= limit
    less = small(budget="3.5KB", measure="reconstruction")
    assert found.score > less.score


def test_the_same_seed_gives_the_same_bytes(made: Compressed):
    assert small().data == made.data
    assert made.tried == small().tried


def test_the_best_of_all_methods_is_taken(made: Compressed):
    scores = [one.score for one in made.tried]
    assert scores == sorted(scores, reverse=True)
    assert made.method == made.tried[0].method
    assert {"codes", "product", "residual", "pca-int4"} <= {one.method for one in made.tried}


def test_nothing_is_tried_twice_under_two_names(made: Compressed):
    assert len({one.settings for one in made.tried}) == len(made.tried)


def test_room_for_all_values_in_eight_bits_is_used(tmp_path: Path):
    found = small(budget="60KB", measure="reconstruction")
    assert found.method == "int8"
    step = np.abs(VECTORS).max(axis=1, keepdims=True) / 127
    assert (np.abs(found.vectors() - VECTORS) <= 0.6 * step).all()


def test_a_limit_that_nothing_meets_names_the_smallest():
    with pytest.raises(BudgetError, match=r"300 bytes are too few for 900 vectors.*about 1,\d\d\d"):
        small(budget=300)
    with pytest.raises(ConfigError, match="is not a size"):
        small(budget="99%")


def test_nearest_are_those_of_the_smallest_angle(made: Compressed):
    read = made.vectors().astype(np.float64)
    read /= np.linalg.norm(read, axis=1, keepdims=True)
    similar = read @ read[5]
    similar[5] = -2
    found = made.nearest(5, k=4)
    assert [one.similarity for one in found] == pytest.approx(np.sort(similar)[::-1][:4], abs=1e-5)
    assert all(similar[one.id] == pytest.approx(one.similarity, abs=1e-5) for one in found)
    assert len(made.nearest(5, k=5000)) == 899


def test_string_ids_are_kept_in_their_order():
    names = [f"item {number}" for number in range(899, -1, -1)]
    found = small(ids=names, budget="16KB")
    assert found.lookup.ids.values.tolist() == names
    assert np.array_equal(found.vectors(["item 899"]), found.vectors()[:1])
    assert found.nearest("item 3")[0].id in names


def test_integer_ids_may_come_in_any_order():
    ids = 5 * RNG.permutation(900) + 2
    found = small(ids=ids, budget="12KB", measure="reconstruction")
    read = found.vectors(ids)
    assert ((VECTORS - read) ** 2).sum() < 0.3 * (VECTORS**2).sum()
    assert found.lookup.ids.values.tolist() == sorted(ids.tolist())


@pytest.mark.parametrize("unknown", [[900], ["7"], [0.5], [True]])
def test_unknown_ids_are_refused(made: Compressed, unknown: list[Any]):
    with pytest.raises(DataError):
        made.vectors(unknown)


def test_weighted_vectors_are_rebuilt_better():
    weights = np.ones(900)
    weights[:200] = 1000
    first = VECTORS + 5 * RNG.normal(size=VECTORS.shape).astype(np.float32)

    def error(found: Compressed) -> float:
        return float(((first - found.vectors())[:200] ** 2).sum())

    plain = small(first, measure="reconstruction", budget="4KB")
    weighted = small(first, measure="reconstruction", budget="4KB", weights=weights)
    assert error(weighted) < 0.9 * error(plain)


def test_vectors_of_any_scale_are_kept():
    for scale in (1e-12, 1e12):
        found = small(VECTORS * np.float32(scale), measure="cosine")
        assert found.score > 0.8


def test_few_vectors_are_measured_on_all():
    assert small(VECTORS[:20], budget="4KB").file_bytes <= 4000


def test_large_tables_are_read_in_stretches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr("cerp.compression.tables.STRETCH", 128)
    monkeypatch.setattr(module, "HELD_OUT", 100)
    monkeypatch.setattr(module, "FITTED_TO", 300)
    monkeypatch.setattr(module, "TRIED_ON", 200)
    np.save(tmp_path / "table.npy", VECTORS)
    read: list[int] = []
    rows = module.VectorTable.rows

    def counted(self, places):
        found = rows(self, places)
        read.append(len(found))
        return found

    monkeypatch.setattr(module.VectorTable, "rows", counted)
    found = small(tmp_path / "table.npy")
    assert max(read) == 300
    assert found.vectors().shape == VECTORS.shape


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"vectors": VECTORS[0]}, "the shape"),
        ({"vectors": VECTORS[:0]}, "the shape"),
        ({"vectors": np.full((60, 4), np.nan)}, "not finite"),
        ({"ids": list(range(5))}, "5 ids for 900"),
        ({"ids": [0] * 900}, "stands for two"),
        ({"ids": ["a"] * 900}, "stands for two"),
        ({"weights": np.ones(3)}, "900 numbers"),
        ({"weights": -np.ones(900)}, "not below zero"),
        ({"vectors": "missing.npy"}, "there is no such file"),
    ],
)
def test_what_cannot_be_used_is_refused(given: dict[str, Any], message: str):
    with pytest.raises(DataError, match=message):
        small(**given)


def test_a_measure_that_is_not_known_is_refused():
    with pytest.raises(ConfigError, match="unknown measure 'ndcg'"):
        small(measure="ndcg")


def test_measures_have_the_values_worked_out_by_hand():
    original = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], dtype=np.float32)
    ones = np.ones(4, dtype=np.float32)
    read = original.copy()
    assert reconstruction(original, read, ones) == cosine(original, read, ones) == 1
    read[0] = [0, 1]  # off by 2 of 4, and at a right angle
    assert reconstruction(original, read, ones) == pytest.approx(0.5)
    assert cosine(original, read, ones) == pytest.approx(0.75)
    assert measure_of("cosine") is cosine
    close = np.array([[1, 0], [1, 0.1], [-1, 0], [-1, 0.1]], dtype=np.float32)
    assert recall(close, close, ones, 1) == 1
    swapped = close[[0, 2, 1, 3]]
    assert recall(close, swapped, ones, 1) == 0


@pytest.mark.parametrize(("count", "dim"), [(900, 12), (70_839, 64), (5000, 300)])
@pytest.mark.parametrize("room", [8_000, 120_000, 900_000])
def test_plans_are_within_the_room_they_are_given(count: int, dim: int, room: int):
    found = plans(count, dim, room)
    assert all(plan.size(count, dim) <= room for plan in found)
    assert len(found) <= 16


def test_a_plan_counts_at_least_the_bytes_of_its_file():
    for one in (small(budget=budget) for budget in ("5KB", "12KB")):
        taken = [tried.bytes for tried in one.tried if tried.method == one.method]
        assert one.file_bytes <= max(taken)
        assert one.file_bytes > 0.8 * min(taken)


def test_words_for_plans():
    assert Plan("int8", "int8", 12).described() == "12 numbers in int8"
    assert Plan("codes", "int8", 12, (4, 3), 2).described() == (
        "2 x 2 books of 8 or 16 rows in int8"
    )


# The command line


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cerp.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_command_writes_the_file_and_says_what_was_tried(tmp_path: Path):
    np.save(tmp_path / "x.npy", VECTORS[:200])
    path = tmp_path / "f.cerp"
    done = run("compress", str(tmp_path / "x.npy"), "--max-size", "4KB", "-o", str(path), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["file_bytes"] == path.stat().st_size <= 4000
    assert found["method"] == found["tried"][0]["method"]
    scores = [one["score"] for one in found["tried"]]
    assert scores == sorted(scores, reverse=True)
    assert cerp.load(path).vectors().shape == (200, 12)
    shown = run("inspect", str(path))
    assert "lookups by id" in shown.stdout
    account = json.loads(run("inspect", str(path), "--json").stdout)
    assert account["total_bytes"] == sum(account["sections"].values()) == path.stat().st_size
    assert account["full_table_bytes"] == 200 * 12 * 4


@pytest.mark.slow
def test_recommending_from_vectors_is_refused(made: Compressed, tmp_path: Path):
    made.save(tmp_path / "small.cerp")
    for arguments in (("recommend", "--user", "1"), ("serve",)):
        done = run(arguments[0], str(tmp_path / "small.cerp"), *arguments[1:])
        assert done.returncode == 2
        assert "no recommender" in done.stderr


@pytest.mark.slow
def test_ids_and_weights_come_from_files(tmp_path: Path):
    np.save(tmp_path / "x.npy", VECTORS[:100])
    (tmp_path / "ids.txt").write_text("\n".join(f"w{number}" for number in range(100)))
    (tmp_path / "weights.txt").write_text("\n".join(["1.5"] * 100))
    done = run(
        "compress", str(tmp_path / "x.npy"), "--max-size", "4KB", "-o", str(tmp_path / "f.cerp"),
        "--ids", str(tmp_path / "ids.txt"), "--weights", str(tmp_path / "weights.txt"),
        "--measure", "cosine",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "cosine" in done.stdout
    assert cerp.load(tmp_path / "f.cerp").vectors(["w3"]).shape == (1, 12)


# The file


def test_a_lookup_file_is_decoded_and_encoded_to_the_same_bytes(made: Compressed):
    model = artifact.decode(made.data)
    assert model.is_lookup
    assert model.dim == 12
    again = artifact.encode(model, artifact.Encoding(model.precision), is_random=True)
    assert again == made.data
