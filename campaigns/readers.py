"""Tables of odd ids through the readers, against Python's own csv module as the oracle.

A table is written by the csv module (or as JSON lines) in one of the many ways there are. What the
reader gives back is what the csv module reads, without blanks around ids; or the table holds an
id that may not be, and is refused. Every row is a case.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import tempfile
from pathlib import Path
from random import Random

from campaigns.harness import Campaign
from cerp.artifact.numbers import LARGEST_NUMBER
from cerp.data.ids import LONGEST_ID, flaw_of
from cerp.data.readers import read
from cerp.errors import DataError

SIGNS = "abcXYZ019 ,;|\t\"'\\\n\r=+-@<>&%#_.:é\u00a0\u2028\u0085\x1c\x0b\U0001f600\ufeff"
NUMERALS = ("0", "00", "-0", "-1", "1.0", "1e3", "9" * 30, "null", "NaN", "None", "true", "1_000")
BLANKS = " \t"
MOST_ROWS = 300
Pairs = list[tuple[str, str]]


def attack(campaign: Campaign) -> None:
    """Each row of a table is a case."""
    rng, tables, refused = campaign.rng, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for number in campaign.rounds():
            path, oracle = _written(Path(folder), _pairs(rng), rng)
            # A string of JSON says that it is text, where it begins and where it ends; a field of
            # a table may be padded, and is a number where it looks like one.
            is_table = ".csv" in path.name
            if is_table:
                oracle = [(user.strip(BLANKS), item.strip(BLANKS)) for user, item in oracle]
            found, expected = _read(path), _expected(oracle, has_numbers=is_table)
            tables += 1
            refused += expected is None
            campaign.cases += len(oracle)
            if found != expected:
                campaign.fail(f"table {number} ({path.name}): {_difference(found, expected)}")
    campaign.figures |= {"tables": tables, "to_be_refused": refused}


def _difference(found: set[tuple[str, str]] | None, expected: set[tuple[str, str]] | None) -> str:
    if found is None or expected is None:
        return f"{'refused' if found is None else 'read'}: {found or expected!s:.200}"
    return f"found {sorted(found - expected)!r:.150}, wanted {sorted(expected - found)!r:.150}"


def _pairs(rng: Random) -> Pairs:
    count = rng.randint(2, MOST_ROWS)
    if rng.random() < 0.25:
        largest = rng.choice((10, 2**31, LARGEST_NUMBER))
        numbers = [(rng.randint(0, largest), rng.randint(0, largest)) for _ in range(count)]
        numbers += [(LARGEST_NUMBER + 1, 1)] * (rng.random() < 0.1)
        return [(str(user), str(item)) for user, item in numbers]
    # Two rows of plain words: ids are text then, and there are two users and two items.
    rows = [("first", "first"), ("second", "second")]
    rows += [(_id(rng), _id(rng)) for _ in range(count)]
    if rng.random() < 0.1:
        rows.append((rng.choice(("x" * (LONGEST_ID + 1), "", " ", "\0")), "item"))
    return rows


def _id(rng: Random) -> str:
    if rng.random() < 0.1:
        return rng.choice(NUMERALS)
    if rng.random() < 0.01:
        return "x" * LONGEST_ID
    return "".join(rng.choice(SIGNS) for _ in range(rng.randint(0, 6))) + rng.choice("abc")


def _written(folder: Path, pairs: Pairs, rng: Random) -> tuple[Path, Pairs]:
    """The file, and what is in it by the oracle."""
    if rng.random() < 0.2:
        text = "".join(json.dumps({"user": user, "item": item}) + "\n" for user, item in pairs)
        return _stored(folder / "table.jsonl", text.encode(), rng), pairs
    buffer = io.StringIO(newline="")
    delimiter, ending = rng.choice(",;\t|"), rng.choice(("\n", "\r\n"))
    writer = csv.writer(buffer, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator=ending)
    writer.writerows([("user", "item"), *pairs])
    lines = io.StringIO(buffer.getvalue(), newline="")
    oracle = [(row[0], row[1]) for row in csv.reader(lines, delimiter=delimiter)]
    return _stored(folder / "table.csv", buffer.getvalue().encode(), rng), oracle[1:]


def _stored(path: Path, content: bytes, rng: Random) -> Path:
    if rng.random() < 0.2:
        path, content = path.with_name(f"{path.name}.gz"), gzip.compress(content, 1)
    path.write_bytes(content)
    return path


def _expected(pairs: Pairs, *, has_numbers: bool) -> set[tuple[str, str]] | None:
    """What has to be read; None: the table has to be refused."""
    for side in range(2):
        ids = {pair[side] for pair in pairs}
        if len(ids) < 2 or any(not one or flaw_of(one) for one in ids):
            return None
        are_numbers = has_numbers and all(one.isdigit() for one in ids)
        if are_numbers and any(int(one) > LARGEST_NUMBER for one in ids):
            return None
    return set(pairs)


def _read(path: Path) -> set[tuple[str, str]] | None:
    try:
        data = read(path, user="user", item="item")
    except DataError:
        return None
    users, items = data.users.decode(data.user), data.items.decode(data.item)
    return {(str(user), str(item)) for user, item in zip(users, items, strict=True)}
