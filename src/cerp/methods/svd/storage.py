"""Vectors of items in few bytes: learned codes and books, as many rows as fit.

Of each way to store them that is tried, the books have as many rows as the limit allows;
validation chooses how long vectors are, of how many rows each is the sum, and their precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from cerp.assignment.residual_kmeans import ITERATIONS, learn_codes
from cerp.assignment.residual_kmeans import ROUNDS as DESCENT_ROUNDS
from cerp.choices import ValuePrecision
from cerp.data.ids import Float32Array, Int64Array
from cerp.graph.climbing import climbed
from cerp.graph.history_sums import HistorySums, SummedItems
from cerp.graph.neighbours import popularity_levels
from cerp.graph.scaled_svd import ScaledSvd, Scaling
from cerp.methods.item_method import Room
from cerp.methods.svd.search import ScalingSearch

BOOKS = (0, 2, 3, 4, 6, 8, 12, 16)
"""0: a row for each item."""
ROWS = (16, 32, 64, 128, 256, 512, 1024)
VALUES: tuple[ValuePrecision, ...] = ("int4", "int8", "fp16")
PACKED: tuple[ValuePrecision, ...] = ("int4", "int8")
"""Precisions that the search begins with."""
CLIMBS = 2
"""From so many of the best starts."""
ROUNDS = 3
FINALISTS = 3
"""Trials whose books are fitted to the end: codes of other books may turn out better or worse."""
NOTHING_FITS = -1.0


class Effort(NamedTuple):
    """How long books are fitted."""

    iterations: int
    """Of Lloyd's algorithm, for each book."""
    rounds: int
    """Of coordinate descent."""


TRIAL, FULL = Effort(6, 1), Effort(ITERATIONS, DESCENT_ROUNDS)
"""In a trial, which only says what is worth more than what; and of what is shipped."""


@dataclass(frozen=True, order=True)
class Storage:
    """A way to store vectors."""

    rank: int
    books: int
    values: ValuePrecision
    rows: int | None = None
    """Of each book: None where a row for each item is stored, and until it is known what fits."""


class Stored(NamedTuple):
    """Vectors in a way to store them, and what that is worth on validation."""

    storage: Storage
    items: SummedItems
    score: float


@dataclass(eq=False)
class StorageSearch:
    """Trials of one scaling under one limit."""

    scalings: ScalingSearch
    scaling: Scaling
    room: Room
    item_counts: Int64Array
    """Takers of each item in the data that the file is made of in the end."""
    judged: dict[Storage, float] = field(default_factory=dict)
    trials: list[dict[str, Any]] = field(default_factory=list)

    def best(self, precisions: Sequence[ValuePrecision], *, grows: bool = False) -> Stored | None:
        """What validation likes best; None: nothing fits.

        Trials fit books briefly: the best of them are fitted to the end and judged again.

        Parameters
        ----------
        precisions
            Of values, the coarsest first.
        grows
            Whether what is found may take what its codes leave of the limit: then it fits as it is,
            and may not fit after a refit.

        """
        ranks = [rank for rank in self.scalings.ranks if rank <= self.scaling.rank]
        ladders = {"rank": ranks, "books": BOOKS, "values": precisions}
        starts = list(self._starts(ranks, precisions))
        if not starts:
            return None
        for start in sorted(dict.fromkeys(starts), key=self.judge, reverse=True)[:CLIMBS]:
            climbed(start, ladders, self.judge, rounds=ROUNDS)
        finalists = sorted(self.judged, key=lambda one: -self.judged[one])[:FINALISTS]
        found = [self._in_full(fits) for one in finalists if (fits := self._fitting(one))]
        best = max(found, key=lambda one: one.score)
        return self._grown(best, {**ladders, "rows": ROWS}) if grows else best

    def _grown(self, best: Stored, ladders: Mapping[str, Sequence[Any]]) -> Stored:
        """One step up a ladder after the other, while the file fits and validates better.

        What fits is reckoned with codes at random. Learned ones take fewer bytes, the more items
        share a row: in files of 120 KB only 46 were used on amazon-beauty.
        """
        while True:
            larger = map(self._in_full, self._larger(best.storage, ladders))
            fitting = [one for one in larger if self.room.fullness(one.items) <= 1]
            found = max(fitting, key=lambda one: one.score, default=best)
            if found.score <= best.score:
                return best
            best = found

    def _larger(self, storage: Storage, ladders: Mapping[str, Sequence[Any]]) -> Iterator[Storage]:
        """Ways to store that are one step larger, and might fit with the best of codes."""
        for name, ladder in ladders.items():
            present = getattr(storage, name)
            if not present:  # a row for each item: there are no books to have more rows, or more of
                continue
            above = ladder[ladder.index(present) + 1 :]
            if not above or (name == "rows" and above[0] >= len(self.item_counts)):
                continue
            wanted = replace(storage, **{name: above[0]})
            if self.room.fullness(stand_in(wanted, self.item_counts, one_code=True)) <= 1:
                yield wanted

    def _in_full(self, storage: Storage) -> Stored:
        items = stored(self.scalings.svd, self.scaling, storage, self.scalings.seed, FULL)
        return Stored(storage, items, self.figure(items))

    def _starts(
        self, ranks: Sequence[int], precisions: Sequence[ValuePrecision]
    ) -> Iterator[Storage]:
        """The longest vectors that fit, stored in ways that are far from one another.

        A climb ends on a hill, often far below the limit: the best of these are on high ones.
        """
        usual = precisions[len(precisions) // 2]
        few = [self._longest(ranks, books, usual) for books in (4, 2, 0)]
        yield from [storage for storage in few if storage is not None][:1]
        for values in [one for one in precisions if one in PACKED] or precisions:
            for books in (0, 8, 16):
                storage = self._longest(ranks, books, values)
                if storage is not None:
                    yield storage

    def _longest(self, ranks: Sequence[int], books: int, values: ValuePrecision) -> Storage | None:
        """The longest vectors that fit as sums of rows of books of 64 or more, or else of any."""
        for fewest in (64, ROWS[0]):
            for rank in reversed(ranks):
                storage = Storage(rank, books, values)
                fits = self._fitting(storage)
                if fits is not None and (fits.rows is None or fits.rows >= fewest):
                    return storage
        return None

    def judge(self, storage: Storage) -> float:
        """The metric on validation; below any where nothing fits."""
        if storage not in self.judged:
            fits = self._fitting(storage)
            score = NOTHING_FITS
            if fits is not None:
                found = stored(self.scalings.svd, self.scaling, fits, self.scalings.seed, TRIAL)
                score = self.figure(found)
                self.trials.append({**_told(fits), self.scalings.metric: score})
                best = max(trial[self.scalings.metric] for trial in self.trials)
                self.scalings.bar.advance(1, f"stored: {self.scalings.metric} {best:.4f}")
            self.judged[storage] = score
        return self.judged[storage]

    def figure(self, items: SummedItems) -> float:
        """The metric on validation of vectors as a file has them."""
        vectors = self.room.as_filed(items)
        return self.scalings.judge_vectors(vectors, self.scaling.sum_exponent)

    def _fitting(self, storage: Storage) -> Storage | None:
        """With as many rows as fit; None: not even the fewest do."""
        choices: Sequence[int | None] = [None]
        if storage.books:
            choices = [rows for rows in reversed(ROWS) if rows < len(self.item_counts)]
        for rows in choices:
            wanted = replace(storage, rows=rows)
            if self.room.fullness(stand_in(wanted, self.item_counts)) <= 1:
                return wanted
        return None


def stand_in(storage: Storage, item_counts: Int64Array, *, one_code: bool = False) -> SummedItems:
    """Numbers drawn at random in place of vectors: no others take more bytes.

    With ``one_code`` all items share their rows, and no other codes take fewer.
    """
    rng, count = np.random.default_rng(0), len(item_counts)
    sums = HistorySums(0.5, popularity_levels(item_counts))
    shape = (storage.rows or count, storage.rank)
    books = tuple(
        rng.standard_normal(shape, dtype=np.float32) for _ in range(max(storage.books, 1))
    )
    codes = None
    if storage.rows is not None:
        codes = rng.integers(
            1 if one_code else storage.rows, size=(count, storage.books), dtype=np.int32
        )
    return SummedItems(sums, books, codes, storage.values)


def stored(
    svd: ScaledSvd, scaling: Scaling, storage: Storage, seed: int, effort: Effort
) -> SummedItems:
    """The vectors of a scaling, as long as they are stored, in books and codes."""
    vectors = svd.vectors(replace(scaling, rank=storage.rank))
    counts = svd.edges.item_degrees
    sums = HistorySums(scaling.sum_exponent, popularity_levels(counts))
    if storage.rows is None:
        return SummedItems(sums, (vectors,), None, storage.values)
    # What is taken more often is looked at more often; what never was has no vector.
    weights = counts.astype(np.float32)
    found = learn_codes(
        vectors,
        weights,
        books=storage.books,
        rows=storage.rows,
        seed=seed,
        iterations=effort.iterations,
        rounds=effort.rounds,
    )
    books: tuple[Float32Array, ...] = tuple(np.asarray(book, np.float32) for book in found.books)
    return SummedItems(sums, books, found.codes.astype(np.int32), storage.values)


def _told(storage: Storage) -> dict[str, Any]:
    """Ready for JSON; what a way to store does not have is left out."""
    return {name: value for name, value in asdict(storage).items() if value is not None}
