"""How many codebooks learned codes have, and how many rows each, for a budget."""

from __future__ import annotations

import math

BOOKS = 8
"""m, where values are limited. Validation NDCG@10 at 99% on Gowalla, at the best K of each: 2, 4
and 8 books have .081, .084 and .085 with undamped vectors of 256 dimensions, 4 and 8 books .093 and
.096 with damped ones of 512 (results/codes_search.json)."""
SPARE_AT_HUNDREDTH = 5.6
"""m·K·d / t, the codebook entries trained per entry kept, where a hundredth of the table is
kept."""
SPARE_POWER = 0.75
"""The power at which it grows as the kept share falls."""
MOST_SPARE = 12.0
CLEARLY_SPARE = 2.0
"""From here on K is a power of two, the next below: codes then waste no part of a bit, and fewer
rows are no worse (256 for 496 on Gowalla)."""
MOST_DISTANCES = 2**39
"""N·m·K, of all entities to all rows, beyond which there are fewer rows: with tens of millions of
entities the rule's own would take hours. A pass through so many takes some ten minutes on two cores
at the ranks that such sizes have (results/codes_at_scale.json), and there are four."""


def book_rows(limit: int, num_entities: int, dim: int, books: int) -> int:
    """K, the rows of each of m books, for a budget of t values.

    ``m·K·d = t · clamp(5.6 · (0.01 / ρ)^0.75, 1, 12)`` with the kept share ρ = t / (N·d):
    the tighter the budget, the more entries pruning has to choose from; where that is twice as
    many or more, K is the power of two below. At most N / m, where the books together have as
    many rows as the full table, and at most what `MOST_DISTANCES` allows: 2,048 rows of 8 books for
    30 million entities.
    """
    density = limit / (num_entities * dim)
    spare: float = SPARE_AT_HUNDREDTH * (0.01 / density) ** SPARE_POWER
    rows = round(limit * min(max(spare, 1.0), MOST_SPARE) / (books * dim))
    rows = max(2, min(rows, num_entities // books, MOST_DISTANCES // (num_entities * books)))
    return 1 << (rows.bit_length() - 1) if spare >= CLEARLY_SPARE else rows


MOST_BOOKS = 8
ROWS_UNDER_BYTES = 256
"""Rows of a book where bytes are limited: a code is then a byte."""


def books_and_rows_of_bytes(
    limit: int, num_entities: int, dim: int, books: int | None = None
) -> tuple[int, int]:
    """Books m and rows K where bytes are limited: as many as t allows, all of their rows stored.

    Codes take most of the bytes then, ``N·log2(K) / 8`` for each book, so that rows are not
    spared. Books have at most R rows, the largest power of two up to 256 whose rows, at a byte a
    value, take at most four times the bytes of their codes: ``m = ⌈t / (R·d)⌉``, from 1 to 8, and
    ``K = t / (m·d)``, so that nothing of t is left over. (Beside
    Gowalla's graph, four books of 245 rows in four bits have a NDCG@10 of .0894 on validation
    where three of 256 in eight have .0865.) K is limited by `MOST_DISTANCES`, too.
    """
    rows = ROWS_UNDER_BYTES
    while rows > 4 and rows * dim > 4 * num_entities * (rows - 1).bit_length() / 8:
        rows //= 2
    wanted = books or min(max(-(-limit // (rows * dim)), 1), MOST_BOOKS)
    most = min(num_entities // wanted, MOST_DISTANCES // (num_entities * wanted))
    return wanted, max(2, min(limit // (wanted * dim), most))


RANKS = (64, 512)
RANK_OF_ROOT = 0.5
DENSE_DEGREE = 20.0
DENSE_POWER = 1.3


def vector_rank(num_entities: int, num_interactions: int) -> int:
    """Dimensions of the vectors that codes are made of.

    ``½·√|R| · min(1, (20 / d̄)^1.3)``, from 64 to 512, with |R| interactions and d̄ of them for an
    entity on average: more data tell more directions, but where entities have many interactions
    the further directions are noise. Found on validation: Gowalla does best with 384 to 512,
    lastfm and amazon-beauty with 256, ml-1m with 64 (results/codes_search.json).
    """
    mean_degree = 2 * num_interactions / num_entities
    thinned: float = min(1.0, (DENSE_DEGREE / max(mean_degree, 1e-9)) ** DENSE_POWER)
    wanted = round(RANK_OF_ROOT * math.sqrt(num_interactions) * thinned)
    return min(max(wanted, RANKS[0]), RANKS[1])


MEMORY = 2**30
"""Bytes that vectors of all entities may take together, the edges not counted."""
SMALLEST_WIDTH = 12
"""Columns of the vectors' block below which they would say too little."""


def bytes_of_vectors(num_short: int) -> int:
    """What the narrowest vectors take in float32, with a copy, for so many of the smaller side."""
    return 2 * 4 * SMALLEST_WIDTH * num_short
