"""Data sets of clicks: rows of one id a field, and whether there was a click.

Readers for libfm lines (Frappe), MovieLens-100K with its user and item fields, and the files of
Criteo and Avazu as Kaggle has them; and a made-up set of Criteo's shape.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cerp.errors import DataError

Ids = npt.NDArray[np.int64]
Labels = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Rows:
    """Ids, one column a field, and labels, 1 for a click."""

    ids: Ids
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, chosen: npt.NDArray[np.integer] | slice) -> Rows:
        return Rows(self.ids[chosen], self.labels[chosen])


@dataclass(frozen=True, eq=False)
class Clicks:
    """Three parts, and how many ids each field has."""

    name: str
    fields: dict[str, int]
    train: Rows
    validation: Rows
    test: Rows

    def counts(self) -> dict[str, Ids]:
        """How often training names each id."""
        columns = zip(self.fields.items(), self.train.ids.T, strict=True)
        return {name: np.bincount(column, minlength=size) for (name, size), column in columns}


def frappe(folder: Path, seed: int = 0) -> Clicks:
    """Frappe's libfm files; a tenth of ``train.libfm`` is held back for validation."""
    first = read_libfm(folder / "train.libfm")
    test = read_libfm(folder / "test.libfm")
    both = np.concatenate([first.ids, test.ids])
    columns = [np.unique(column, return_inverse=True) for column in both.T]
    names = (
        "user", "item", "daytime", "weekday", "weekend", "location", "cost", "weather", "country",
        "city",
    )  # fmt: skip
    fields = {name: len(found) for name, (found, _) in zip(names, columns, strict=True)}
    ids = np.stack([numbers for _, numbers in columns], axis=1)
    shuffled = np.random.default_rng(seed).permutation(len(first))
    held = len(first) // 10
    known = Rows(ids[: len(first)], first.labels)
    test = Rows(ids[len(first) :], test.labels)
    return Clicks("frappe", fields, known[shuffled[held:]], known[shuffled[:held]], test)


def read_libfm(path: Path) -> Rows:
    """Lines of ``label feature:1 feature:1 ...``, as many features on each."""
    labels: list[float] = []
    ids: list[list[int]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        label, *features = line.split()
        if ids and len(features) != len(ids[0]):
            raise DataError(
                f"{path.name}, line {number}: {len(features)} features, the lines before have "
                f"{len(ids[0])}; every line needs one for each field"
            )
        labels.append(float(label) > 0)
        ids.append([int(feature.partition(":")[0]) for feature in features])
    if not ids:
        raise DataError(f"{path.name} has no lines")
    return Rows(np.array(ids, dtype=np.int64), np.array(labels, dtype=np.float32))


def movielens(folder: Path, seed: int = 0) -> Clicks:
    """MovieLens-100K: a click is a rating of 4 or 5; 80% of ratings train, 10% each are held."""
    users = {row[0]: row[1:] for row in _split(folder / "u.user")}
    items = {row[0]: (row[1][-5:-1], "".join(row[5:])) for row in _split(folder / "u.item")}
    columns: list[list[str]] = []
    labels = []
    for user, item, rating, _ in _split(folder / "u.data", "\t"):
        age, sex, occupation, place = users[user]
        year, genres = items[item]
        columns.append([user, item, str(int(age) // 5), sex, occupation, place, year, genres])
        labels.append(int(rating) >= 4)
    names = ("user", "item", "age", "sex", "occupation", "zip", "year", "genres")
    return _divided("ml-100k", names, columns, labels, least=1, seed=seed)


def _split(path: Path, mark: str = "|") -> Iterator[list[str]]:
    lines = path.read_text(encoding="latin-1").splitlines()
    return (line.split(mark) for line in lines if line.strip())


def criteo(path: Path, *, least: int = 10, limit: int | None = None, seed: int = 0) -> Clicks:
    """Criteo's ``train.txt``: a label, 13 counts and 26 categories, divided by tabs.

    A count c is the category ⌊ln(c)²⌋ from 3 on, as the winners of the contest had it. What
    occurs less than ``least`` times in training is one category of its field.
    """
    columns, labels = [], []
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(islice(csv.reader(file, delimiter="\t"), limit), 1):
            if len(row) != 40:
                raise DataError(
                    f"{path.name}, line {number}: {len(row)} columns; Criteo's files have 40, a "
                    "label, 13 counts and 26 categories"
                )
            labels.append(row[0] == "1")
            columns.append([*map(_count_category, row[1:14]), *row[14:]])
    names = [f"I{number}" for number in range(1, 14)] + [f"C{number}" for number in range(1, 27)]
    return _divided("criteo", names, columns, labels, least, seed)


def _count_category(text: str) -> str:
    if not text or int(text) < 3:
        return text
    return f"ln{math.floor(math.log(int(text)) ** 2)}"


def avazu(path: Path, *, least: int = 5, limit: int | None = None, seed: int = 0) -> Clicks:
    """Avazu's ``train``, a CSV with a header; ``hour`` becomes the hour of the day and the day."""
    columns, labels = [], []
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        header = next(reader, [])
        if header[:3] != ["id", "click", "hour"]:
            raise DataError(
                f"{path.name} begins with the columns {', '.join(header[:3])}; Avazu's files begin "
                "with id, click, hour"
            )
        for _, click, hour, *others in islice(reader, limit):
            labels.append(click == "1")
            columns.append([hour[6:8], hour[4:6], *others])
    return _divided("avazu", ["hour", "day", *header[3:]], columns, labels, least, seed)


def _divided(
    name: str,
    fields: Sequence[str],
    columns: Sequence[Sequence[str]],
    labels: Iterable[bool],
    least: int,
    seed: int,
) -> Clicks:
    """Numbers for words: 0 is all that training names less than ``least`` times."""
    shuffled = np.random.default_rng(seed).permutation(len(columns))
    held = max(len(columns) // 10, 1)
    parts = shuffled[2 * held :], shuffled[held : 2 * held], shuffled[:held]
    ids = np.empty((len(columns), len(fields)), dtype=np.int64)
    sizes = {}
    for place, (field, words) in enumerate(zip(fields, zip(*columns, strict=True), strict=True)):
        counted = Counter(words[row] for row in parts[0])
        known = sorted(word for word, count in counted.items() if count >= least)
        numbers = {word: number for number, word in enumerate(known, 1)}
        ids[:, place] = [numbers.get(word, 0) for word in words]
        sizes[field] = len(known) + 1
    rows = Rows(ids, np.array(list(labels), dtype=np.float32))
    return Clicks(name, sizes, *(rows[part] for part in parts))


CRITEO_SHAPE = (
    1460, 583, 10_131_227, 2_202_608, 305, 24, 12_517, 633, 3, 93_145, 5683, 8_351_593, 3194, 27,
    14_992, 5_461_306, 10, 5652, 2173, 4, 7_046_547, 18, 15, 286_181, 105, 142_572,
)  # fmt: skip
"""Values of Criteo's 26 categories."""


def criteo_shaped(largest: int = 50_000, rows: int = 400_000, seed: int = 0) -> Clicks:
    """Made-up clicks in Criteo's 26 fields, sizes beyond ``largest`` / 10 compressed to end there.

    An id's effect is that of its group, with as much again of its own: ``a_k = g(k) + o_k``, in 4
    dimensions and one of its own for the first order; ids occur by Zipf's law. The log odds of a
    click are the sum of first orders and that of ``⟨a_f, a_g⟩`` over pairs of fields, each at a
    deviation of 1, less 1.3: no model that knew all of this would be certain.
    """
    rng = np.random.default_rng(seed)
    sizes = [_compressed(size, largest) for size in CRITEO_SHAPE]
    ids = np.empty((rows, len(sizes)), dtype=np.int64)
    first = np.zeros(rows)
    total, squares = np.zeros((rows, 4)), np.zeros(rows)
    for field, size in enumerate(sizes):
        chances = 1 / np.arange(1, size + 1) ** 1.1
        chosen = rng.choice(size, rows, p=chances / chances.sum())
        ids[:, field] = rng.permutation(size)[chosen]
        groups = rng.normal(size=(min(size, 30), 5))
        effects = groups[rng.integers(len(groups), size=size)] + rng.normal(size=(size, 5))
        found = effects[ids[:, field]]
        first += found[:, 0]
        total += found[:, 1:]
        squares += (found[:, 1:] ** 2).sum(axis=1)
    pairs = ((total**2).sum(axis=1) - squares) / 2
    logits = 1.0 * _standard(first) + 1.0 * _standard(pairs) - 1.3
    labels = rng.random(rows) < 1 / (1 + np.exp(-logits))
    held = rows // 10
    every = Rows(ids, labels.astype(np.float32))
    fields = {f"C{number}": size for number, size in enumerate(sizes, 1)}
    return Clicks("criteo-shaped", fields, every[2 * held :], every[held : 2 * held], every[:held])


def _compressed(size: int, largest: int) -> int:
    """The same below a tenth of ``largest``; above, even on a logarithmic scale up to it."""
    floor = largest / 10
    if size <= floor:
        return size
    above = math.log(size / floor) / math.log(max(CRITEO_SHAPE) / floor)
    return round(floor * 10**above)


def _standard(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    result: npt.NDArray[np.float64] = (values - values.mean()) / values.std()
    return result
