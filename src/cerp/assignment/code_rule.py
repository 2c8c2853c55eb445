"""How many codebooks learned codes have, and how many rows each, for a budget."""

from __future__ import annotations

BOOKS = 4
SPARE_AT_HUNDREDTH = 5.6
"""m·K·d / t, the codebook entries trained per entry kept, where a hundredth of the table is
kept: 4 books of 991 rows on Gowalla."""
SPARE_POWER = 0.75
"""The power at which it grows as the kept share falls."""
MOST_SPARE = 12.0


def book_rows(limit: int, num_entities: int, dim: int, books: int) -> int:
    """K, the rows of each of m books, for a budget of t values.

    ``m·K·d = t · clamp(5.6 · (0.01 / ρ)^0.75, 1, 12)`` with the kept share ρ = t / (N·d):
    the tighter the budget, the more entries pruning has to choose from. At most N / m, where the
    books together have as many rows as the full table.
    """
    density = limit / (num_entities * dim)
    spare: float = SPARE_AT_HUNDREDTH * (0.01 / density) ** SPARE_POWER
    entries = limit * min(max(spare, 1.0), MOST_SPARE)
    rows = round(entries / (books * dim))
    return max(2, min(rows, num_entities // books))


MOST_BOOKS = 8
ROWS_UNDER_BYTES = 256
"""Rows of a book where bytes are limited: a code is then a byte."""


def books_and_rows_of_bytes(limit: int, num_entities: int, dim: int) -> tuple[int, int]:
    """M and K where bytes are limited: books whose rows are all stored, as many as t allows.

    Codes take most of the bytes then, ``N·log2(K) / 8`` for each book, so that rows are not
    spared: ``m = t / (K·d)``, from 1 to 8. K is the largest power of two up to 256 whose rows, at
    a byte a value, take at most four times the bytes of their codes.
    """
    rows = ROWS_UNDER_BYTES
    while rows > 4 and rows * dim > 4 * num_entities * (rows - 1).bit_length() / 8:
        rows //= 2
    return min(max(limit // (rows * dim), 1), MOST_BOOKS), rows
