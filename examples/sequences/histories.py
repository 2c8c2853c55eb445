"""Items of each user in order of time: the last for test, the one before it to choose by."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Histories:
    """Items 1..n of each user in order of time; 0 is the padding."""

    name: str
    items: int
    sequences: list[Ids]

    @property
    def training(self) -> list[Ids]:
        """All but the last two."""
        return [sequence[:-2] for sequence in self.sequences]

    def counts(self) -> Ids:
        """How often training names each item."""
        return np.bincount(np.concatenate(self.training), minlength=self.items + 1)


def video_games(folder: Path) -> Histories:
    """Lines of user and item, those of a user in order of time."""
    pairs = np.loadtxt(folder / "sequences.txt", dtype=np.int64)
    return histories("video-games", pairs[:, 0], pairs[:, 1])


def movielens(folder: Path) -> Histories:
    """MovieLens-100K: all ratings by time, as they lie in the file where times are equal."""
    rows = np.loadtxt(folder / "u.data", dtype=np.int64)
    ordered = rows[np.argsort(rows[:, 3], kind="stable")]
    return histories("ml-100k", ordered[:, 0], ordered[:, 1])


def histories(name: str, users: Ids, items: Ids, seed: int = 0) -> Histories:
    """Rows in order of time as sequences of three items and more.

    Items get numbers in random order: those of a file often follow their first appearance, which
    would tell a model what comes later.
    """
    known, numbers = np.unique(items, return_inverse=True)
    shuffled = np.random.default_rng(seed).permutation(len(known)) + 1
    by_user = np.argsort(users, kind="stable")
    ends = np.flatnonzero(np.diff(users[by_user])) + 1
    found = np.split(shuffled[numbers][by_user], ends)
    return Histories(name, len(known), [sequence for sequence in found if len(sequence) >= 3])


def windows(sequences: list[Ids], length: int) -> Ids:
    """The last ``length`` items of each sequence, and those before them, padded in front with 0."""
    rows = []
    for sequence in sequences:
        for end in range(len(sequence), 0, -length):
            part = sequence[max(end - length, 0) : end]
            if len(part) > 1 or end == len(sequence):
                rows.append(np.concatenate([np.zeros(length - len(part), dtype=np.int64), part]))
    return np.stack(rows)


def last(sequences: list[Ids], length: int) -> Ids:
    """The last ``length`` items of each sequence, padded in front with 0."""
    rows = np.zeros((len(sequences), length), dtype=np.int64)
    for row, sequence in zip(rows, sequences, strict=True):
        part = sequence[-length:]
        row[length - len(part) :] = part
    return rows
