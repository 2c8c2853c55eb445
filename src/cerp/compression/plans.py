"""Which ways of writing a table fit a number of bytes, before anything is fitted.

A table of N vectors is written in one of two ways:

- *values*: every vector in int8 or int4, whole or its first principal components;
- *codes*: in a rotated basis, columns are cut into groups; in each, a vector is the sum of one row
  from each of some books. One group is residual quantisation, one book product quantisation, and
  what lies between is both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cerp.artifact import ValuesCodec, code_bytes
from cerp.artifact.quantize import values_size
from cerp.assignment.rotation import group_widths

HEADER_BYTES = 900
TABLE_BYTES = 400
"""What the header takes at most, without and for each table."""
LARGEST_BITS = 11
MOST_BOOK_ROWS = 4096
"""In all books of a group: time grows with them."""
MOST_TABLES = 64
MOST_BOOKS = 24
LOST_BITS = 2.0
"""Of the code of each book: see `Plan.promise`."""
GROUPS = (1, 2, 4, 8, 16, 32)
POINTS_PER_ROW = 4
"""Vectors that a row needs, for it to stand for more than one."""
MOST_TRIED = 6
"""Plans of learned codes that are fitted, besides pruned ones."""
KEPT_SHARE = 0.5
"""Of the values of pruned books."""


@dataclass(frozen=True)
class Plan:
    """One way of writing a table."""

    method: str
    """``int8``, ``int4``, ``pca-int8``, ``pca-int4``, ``product``, ``residual`` or ``codes``."""
    values: ValuesCodec
    dim: int
    """Columns that are kept: those of the vectors, or the first principal components."""
    bits: tuple[int, ...] = ()
    """Of a code, for each group; none where every vector has values of its own."""
    books: int = 1
    """In each group."""
    kept: float = 1.0
    """Share of the books' values that are stored."""

    @property
    def is_coded(self) -> bool:
        """Whether vectors are sums of rows of books."""
        return bool(self.bits)

    @property
    def groups(self) -> int:
        """How many groups the columns are cut into."""
        return len(self.bits)

    @property
    def code_bits(self) -> int:
        """Bits that tell a vector from others."""
        return self.books * sum(self.bits)

    @property
    def promise(self) -> float:
        """``m Σ_g (b_g − 2)``: bits, less what each book loses for choosing by itself.

        Two books of 2^b rows tell as many vectors apart as one of 2^2b, and less well. By this the
        plans to try are picked; which of them is best is measured.
        """
        return self.code_bits - LOST_BITS * self.books * self.groups

    def size(self, count: int, outputs: int) -> int:
        """Bytes that the file of so many vectors takes at most, ids apart."""
        projection = 0 if self.method in ("int8", "int4") else 2 * self.dim * outputs + 4 * outputs
        if not self.is_coded:
            values = values_size(count * self.dim, count, self.values)
            return HEADER_BYTES + TABLE_BYTES + projection + values
        tables = self.books * self.groups
        total = HEADER_BYTES + TABLE_BYTES * tables + projection
        for bits, width in zip(self.bits, group_widths(self.dim, self.groups), strict=True):
            rows = 1 << bits
            stored = int(rows * width * self.kept) + 1
            book = values_size(stored, rows, self.values) + code_bytes(count, rows)
            # Which columns are stored is a pattern of a bit each; deflated, where all rows agree.
            if self.kept < 1:
                book += rows * width // 8 + 64
            elif self.groups > 1 and self.books > 1:
                book += rows * self.dim // 64 + 64
            total += self.books * book
        return total

    def described(self) -> str:
        """In words, for a table."""
        if not self.is_coded:
            return f"{self.dim} numbers in {self.values}"
        parts = f"{self.groups} x {self.books} books" if self.groups > 1 else f"{self.books} books"
        low, high = min(self.bits), max(self.bits)
        rows = str(1 << low) if low == high else f"{1 << low} or {1 << high}"
        pruned = f", {self.kept:.0%} of the values" if self.kept < 1 else ""
        return f"{parts} of {rows} rows in {self.values}{pruned}"


def plans(count: int, dim: int, room: int) -> list[Plan]:
    """All plans worth fitting that take at most ``room`` bytes."""
    found: list[Plan] = []
    each: dict[ValuesCodec, float] = {"int8": 1.0, "int4": 0.5}
    for values, most in each.items():
        plain = Plan(values, values, dim)
        if plain.size(count, dim) <= room:
            found.append(plain)
        for width in range(min(dim - 1, int(room / (count * most))), 0, -1):
            shorter = Plan(f"pca-{values}", values, width)
            if shorter.size(count, dim) <= room:
                found.append(shorter)
                break
    if any(plan.method == "int8" for plan in found):
        return found  # eight bits for every number: no code would be shorter and better
    coded = list(_coded(count, dim, room))
    found += _best([one for one in coded if one.books == 1 and one.groups > 1], "product", 1)
    found += _best(
        [one for one in coded if one.groups == 1 and one.values == "fp16"], "residual", 1
    )
    own = [one for one in coded if one.values == "int8"]
    whole = [one for one in own if one.kept == 1]
    whole = [
        plan
        for groups in GROUPS
        for plan in _best([one for one in whole if one.groups == groups], "codes", 2)
    ]
    found += _best(whole, "codes", MOST_TRIED)
    found += _best([one for one in own if one.kept < 1], "codes", 2)
    different: dict[Plan, Plan] = {}
    for one in found:  # codes of one book in each group are product quantisation as well
        different.setdefault(replace(one, method="codes"), one)
    return list(different.values())


def smallest(count: int, dim: int) -> int:
    """Bytes below which no plan fits."""
    return min(
        Plan("codes", "int8", dim, (1,)).size(count, dim),
        Plan("pca-int4", "int4", 1).size(count, dim),
    )


def _coded(count: int, dim: int, room: int) -> Iterator[Plan]:
    """For each number of groups and books, the longest codes that fit."""
    for groups in GROUPS:
        if groups > dim:
            break
        for books in range(1, min(MOST_BOOKS, MOST_TABLES // groups) + 1):
            for values in ("int8", "fp16"):
                for kept in (1.0, KEPT_SHARE) if groups == 1 and values == "int8" else (1.0,):
                    for bits in range(LARGEST_BITS, 0, -1):
                        if (books << bits) > MOST_BOOK_ROWS or count < POINTS_PER_ROW << bits:
                            continue
                        plan = Plan("codes", values, dim, (bits,) * groups, books, kept)
                        if plan.size(count, dim) <= room:
                            yield _filled_up(plan, count, dim, room)
                            break


def _filled_up(plan: Plan, count: int, dim: int, room: int) -> Plan:
    """With one bit more in as many groups as there is room for."""
    for number in range(plan.groups):
        bits = (*(one + (place == number) for place, one in enumerate(plan.bits)),)
        longer = replace(plan, bits=bits)
        fits = longer.size(count, dim) <= room and count >= POINTS_PER_ROW << bits[number]
        if not fits or (plan.books << bits[number]) > MOST_BOOK_ROWS:
            break
        plan = longer
    return plan


def _best(found: list[Plan], method: str, most: int) -> list[Plan]:
    """Those that promise most: long codes, of books that are not too small."""
    ordered = sorted(found, key=lambda one: -one.promise)
    return [replace(one, method=method) for one in ordered[:most]]
