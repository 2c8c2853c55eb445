"""`compress`: a table of vectors, written in the way that measures best under a limit."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cerp._version import __version__
from cerp.artifact import Encoding, ShippedModel, decode, encode
from cerp.artifact.names import encode_ids
from cerp.artifact.tensors import total_bytes
from cerp.budget import parse_size
from cerp.compression.fitting import Fitted, Frame, fit
from cerp.compression.measures import Measure, measure_of
from cerp.compression.plans import Plan, plans, smallest
from cerp.compression.reading import open_vectors
from cerp.compression.tables import VectorTable
from cerp.data.ids import Float32Array, Id, Ids, Int64Array
from cerp.errors import BudgetError, ConfigError, DataError
from cerp.files import write_bytes
from cerp.progress import progress
from cerp.runtime.lookup import Lookup, Neighbour

HELD_OUT = 4000
"""Vectors that are measured, and that nothing is fitted to; a fifth of a small table."""
TRIED_ON, FITTED_TO = 1 << 14, 1 << 16
"""Vectors that plans are tried on, and that the chosen one is fitted to."""
TRIED_ITERATIONS, ITERATIONS = 8, 25
FEWEST_TO_HOLD_OUT = 50
SAFE = (1e-2, 1e4)
"""Largest numbers of tables whose rows' scales half precision holds well; others are scaled."""


class Tried(NamedTuple):
    """What a plan reached on the vectors that were held out, fitted to a small sample."""

    method: str
    settings: str
    bytes: int
    """That its file takes at most."""
    score: float


@dataclass(frozen=True, eq=False)
class Compressed:
    """A compressed table: its file, how it was made, and the vectors in it."""

    data: bytes
    """The file."""
    method: str
    settings: str
    measure: str
    score: float
    """What the measure says of the vectors that were held out."""
    tried: tuple[Tried, ...]
    """Every plan that was tried, best first."""
    lookup: Lookup
    """The file, read back."""

    @property
    def file_bytes(self) -> int:
        """The size of the file."""
        return len(self.data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, whole or not at all."""
        write_bytes(Path(path), self.data)

    def vectors(self, ids: Iterable[Id] | None = None) -> Float32Array:
        """As `cerp.load(path).vectors` gives them."""
        return self.lookup.vectors(ids)

    def nearest(self, id: Id, k: int = 10) -> list[Neighbour]:  # noqa: A002  (the word for it)
        """As `cerp.load(path).nearest` gives them."""
        return self.lookup.nearest(id, k)

    def __repr__(self) -> str:
        return f"Compressed: {self.method} ({self.settings}), {self.measure} {self.score:.4f}\n" + (
            f"  {self.lookup!r}"
        )


def compress(
    vectors: Any,
    ids: Any = None,
    *,
    budget: str | int,
    weights: Any = None,
    measure: str = "recall@10",
    key: str | None = None,
    seed: int = 0,
    verbose: bool = True,
) -> Compressed:
    """Write a table of vectors into a file of at most so many bytes.

    Every way of writing it that fits (values in int8 or int4, whole or in principal components;
    product and residual quantisation; learned codes with pruned and rounded books) is fitted to a
    sample and measured on vectors that were held out; the best is fitted to a larger sample, and
    every vector is written in it, a stretch at a time. The result never exceeds the limit.

    Parameters
    ----------
    vectors
        (rows, numbers): an array, a tensor, a pandas frame, or the path of a file (see
        `cerp.compression.reading.open_vectors`). A ``.npy`` file stays on disk.
    ids
        One for each row; by default 0..n-1, or what the source says.
    budget
        The size of the file, such as ``"2MB"``, or a number of bytes.
    weights
        How much each row counts, such as its frequency; in the measure and in fitting.
    measure
        ``recall@k``: the share of a vector's k nearest others, by cosine, that stay nearest;
        ``cosine``: between original and read vectors; ``reconstruction``: the share of the
        variance that is left.
    key
        Which array of a file that holds several.
    seed
        Draws samples and first rows.
    verbose
        Show progress.

    Returns
    -------
    Compressed
        The file as bytes, and what each method reached.

    """
    judge = measure_of(measure)
    size = _limit(budget)
    table = open_vectors(vectors, ids, key)
    count, dim = table.shape
    weight = _checked_weights(weights, count)
    if table.order is not None and weights is not None:
        weight = weight[table.order]
    facts = {"budget": str(budget), "measure": measure, "library": __version__}
    room = size - _bytes_of_ids(table.ids)
    job = _Job(table, weight, judge, measure, seed, quiet=not verbose)
    while True:
        candidates = [plan for plan in plans(count, dim, room) if job.can_hold(plan)]
        if not candidates:
            least = smallest(count, dim) + size - room
            raise BudgetError(
                f"{size:,} bytes are too few for {count:,} vectors of {dim} numbers; the smallest "
                f"possible file has about {least:,}"
            )
        tried = job.tried(candidates)
        best = max(range(len(tried)), key=lambda number: tried[number].score)
        found = _written(job, candidates[best], facts)
        if len(found.data) <= size:
            break
        room -= len(found.data) - size + 64  # the estimate of the header was too small
    return Compressed(
        found.data,
        candidates[best].method,
        candidates[best].described(),
        measure,
        found.score,
        tuple(sorted(tried, key=lambda one: -one.score)),
        Lookup(decode(found.data), file_bytes=len(found.data)),
    )


class _File(NamedTuple):
    data: bytes
    score: float


@dataclass(frozen=True, eq=False)
class _Job:
    """The table, and the parts of it that plans are fitted to and measured on."""

    table: VectorTable
    weights: Float32Array
    judge: Measure
    measure: str
    seed: int
    quiet: bool

    def __post_init__(self) -> None:
        count = self.table.shape[0]
        drawn = np.random.default_rng(self.seed).permutation(count)
        held = 0 if count < FEWEST_TO_HOLD_OUT else min(HELD_OUT, count // 5)
        places = np.sort(drawn[:held]) if held else np.arange(count)
        object.__setattr__(self, "_held", places)
        object.__setattr__(self, "_others", drawn[held:])
        object.__setattr__(self, "_original", self.table.rows(places))

    _held: Int64Array = None  # type: ignore[assignment]
    _others: Int64Array = None  # type: ignore[assignment]
    _original: Float32Array = None  # type: ignore[assignment]

    def frame(self, most: int) -> Frame:
        """What plans are fitted to, of at most so many vectors.

        Where directions are measured, a vector counts as much as another of any length.
        """
        places = np.sort(self._others[:most])
        sample, weights = self.table.rows(places), self.weights[places]
        if self.measure != "reconstruction":
            squares = np.einsum("kd,kd->k", sample, sample)
            weights = weights / np.maximum(squares, max(float(squares.mean()) * 1e-3, 1e-30))
        total = float(weights.sum())
        return Frame.of(sample, weights / total * len(weights) if total else np.ones_like(weights))

    def can_hold(self, plan: Plan) -> bool:
        """Whether the scales of rows, which are halves, can be those of the vectors as they are."""
        largest = float(np.abs(self._original).max(initial=0))
        return plan.method not in ("int8", "int4") or SAFE[0] <= largest <= SAFE[1]

    def score(self, fitted: Fitted) -> float:
        """What the measure says of the vectors that were held out."""
        weights = self.weights[self._held]
        weights = weights if weights.any() else np.ones_like(weights)
        return self.judge(self._original, fitted.read_back(self._original), weights)

    def tried(self, candidates: list[Plan]) -> list[Tried]:
        """Each plan on a small sample."""
        frame, (count, dim) = self.frame(TRIED_ON), self.table.shape
        found = []
        with progress("trying", len(candidates), quiet=self.quiet) as bar:
            for plan in candidates:
                fitted = fit(plan, frame, self.seed, TRIED_ITERATIONS, bar)
                one = Tried(
                    plan.method, plan.described(), plan.size(count, dim), self.score(fitted)
                )
                found.append(one)
                bar.advance(0, f"{one.method} {self.measure} {one.score:.4f}")
        return found


def _written(job: _Job, plan: Plan, facts: dict[str, Any]) -> _File:
    """The file of a plan."""
    with progress("fitting", 1, quiet=job.quiet) as bar:
        fitted = fit(plan, job.frame(FITTED_TO), job.seed, ITERATIONS, bar)
    score = job.score(fitted)
    with progress("writing", 1, quiet=job.quiet) as bar:
        embedding = fitted.write(job.table, bar)
    model = ShippedModel(
        facts={"method": plan.method, **facts, "score": round(score, 6)},
        users=Ids.range(0),
        items=job.table.ids,
        head=None,
        embedding=embedding,
        projection=fitted.projection,
    )
    return _File(encode(model, Encoding(plan.values), is_random=True), score)


def _limit(budget: str | int) -> int:
    if isinstance(budget, int) and not isinstance(budget, bool):
        if budget < 1:
            raise ConfigError(f"budget {budget} leaves no room at all; give bytes, such as 200000")
        return budget
    return parse_size(str(budget), "budget")


def _bytes_of_ids(ids: Ids) -> int:
    described, tensors = encode_ids(ids, "items")
    return total_bytes(tensors) + len(str(described))


def _checked_weights(weights: Any, count: int) -> Float32Array:
    if weights is None:
        return np.ones(count, dtype=np.float32)
    found = np.asarray(weights)
    if found.shape != (count,) or found.dtype.kind not in "fiu":
        raise DataError(f"weights must be {count:,} numbers, one for each vector")
    found = found.astype(np.float32)
    if not np.isfinite(found).all() or found.min() < 0 or not math.isfinite(float(found.sum())):
        raise DataError("weights must be finite and not below zero")
    return found
