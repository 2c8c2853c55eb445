"""How the vectors of a scaled SVD are stored: where the search begins, and what it ends with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from cerp.data.ids import Float32Array
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.graph.history_sums import SummedItems
from cerp.graph.scaled_svd import Scaling
from cerp.methods.svd.search import ScalingSearch
from cerp.methods.svd.storage import BOOKS, ROWS, VALUES, Storage, StorageSearch
from cerp.progress import progress

BITS = {"int4": 4, "int8": 8, "fp16": 16}
SCALING = Scaling(64, items=0.25, users=0.25, lengths=0.125, spectrum=0.0, history=0.25)


@dataclass(frozen=True)
class BitsOfRoom:
    """A limit on the bits of rows and codes, and nothing is rounded."""

    bits: int

    def fullness(self, model: SummedItems) -> float:
        rows = sum(book.size for book in model.books) * BITS[model.values]
        codes = 0 if model.codes is None else model.codes.size * np.log2(len(model.books[0]))
        return float(rows + codes) / self.bits

    def as_filed(self, model: SummedItems) -> Float32Array:
        if model.codes is None:
            return model.books[0]
        return sum(book[codes] for book, codes in zip(model.books, model.codes.T, strict=True))


@pytest.fixture(scope="module")
def splits() -> Splits:
    return synthetic(300, 200, 6000).split(seed=0)


def search_of(splits: Splits, bits: int, room: type[BitsOfRoom] = BitsOfRoom) -> StorageSearch:
    with progress("", quiet=True) as bar:
        scalings = ScalingSearch(splits, "ndcg@10", 0, 64, bar)
    return StorageSearch(scalings, SCALING, room(bits), splits.train.item_counts)


def test_the_search_begins_with_what_fills_the_limit(splits: Splits):
    # 200 rows of 32 numbers in 4 bits are 25,600 bits, and so are 200 of 16 in 8 bits.
    search = search_of(splits, bits=26_000)
    starts = list(search._starts([4, 8, 16, 24, 32, 48, 64], VALUES))
    assert Storage(32, 0, "int4") in starts
    assert Storage(16, 0, "int8") in starts
    # 8 books of 64 rows of 8 numbers are 16,384 bits, and 200 times 8 codes of 6 bits 9,600.
    assert Storage(8, 8, "int4") in starts
    assert {one.books for one in starts} == {0, 4, 8, 16}
    assert {one.values for one in starts} == {"int4", "int8"}


def test_one_precision_alone_is_begun_with(splits: Splits):
    starts = list(search_of(splits, bits=60_000)._starts([4, 8, 16], ("fp16",)))
    assert {one.values for one in starts} == {"fp16"}
    assert Storage(16, 0, "fp16") in starts


def test_where_nothing_fits_nothing_is_found(splits: Splits):
    assert search_of(splits, bits=100).best(VALUES) is None


def test_every_start_is_judged_and_what_is_found_is_no_worse(splits: Splits):
    search = search_of(splits, bits=6_000)
    ranks = [rank for rank in search.scalings.ranks if rank <= SCALING.rank]
    starts = set(search._starts(ranks, VALUES))
    found = search.best(VALUES)
    assert starts <= search.judged.keys()
    assert search.room.fullness(found.items) <= 1
    # Rows of items' own need no fitting: their figure is the same in a trial.
    assert found.score >= max(search.judged[one] for one in starts if not one.books)


class EntropyOfRoom(BitsOfRoom):
    """Codes take what an ideal packer makes of them: fewer bits where items share rows."""

    def fullness(self, model: SummedItems) -> float:
        rows = sum(book.size for book in model.books) * BITS[model.values]
        codes = 0.0
        for column in () if model.codes is None else model.codes.T:
            shares = np.bincount(column) / len(column)
            codes -= len(column) * float((shares * np.log2(np.maximum(shares, 1e-9))).sum())
        return (rows + codes) / self.bits


def test_what_learned_codes_leave_of_a_limit_is_used(
    splits: Splits, monkeypatch: pytest.MonkeyPatch
):
    def more_numbers_in_books(_: StorageSearch, items: SummedItems) -> float:
        return 0.0 if items.codes is None else sum(book.size for book in items.books)

    # So that the limit alone ends the search.
    monkeypatch.setattr(StorageSearch, "figure", more_numbers_in_books)
    search = search_of(splits, bits=16_000, room=EntropyOfRoom)
    plain, grown = search.best(["int4"]), search.best(["int4"], grows=True)
    assert plain is not None
    assert grown is not None
    assert grown.score > plain.score
    assert search.room.fullness(grown.items) <= 1
    ladders = {"rank": search.scalings.ranks, "books": BOOKS, "rows": ROWS}
    for larger in search._larger(grown.storage, ladders):
        assert search.room.fullness(search._in_full(larger).items) > 1


def test_nothing_grows_beyond_its_limit_or_for_less_accuracy(splits: Splits):
    # The room of BitsOfRoom is the same for all codes: what is found fills it.
    for bits in (2_000, 8_000, 26_000):
        search = search_of(splits, bits)
        plain, grown = search.best(VALUES), search.best(VALUES, grows=True)
        assert plain is not None
        assert grown is not None
        assert search.room.fullness(grown.items) <= 1
        assert grown.score >= plain.score
