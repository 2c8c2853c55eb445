"""How well vectors that were read back stand for the original ones; higher is better."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from cerp.data.ids import Float32Array, Int64Array
from cerp.errors import ConfigError

Weights = Float32Array
Measure = Callable[[Float32Array, Float32Array, Weights], float]
"""Of the original vectors, those read back, and the weight of each."""

QUERIES_AT_ONCE = 512
NAMES = "'reconstruction', 'cosine' or 'recall@10' with any number"


def measure_of(name: str) -> Measure:
    """By name: ``reconstruction``, ``cosine`` or ``recall@k``."""
    if name in PLAIN:
        return PLAIN[name]
    found = re.fullmatch(r"recall@([1-9]\d{0,3})", name)
    if found is None:
        raise ConfigError(f"unknown measure {name!r}; choose {NAMES}")
    k = int(found[1])
    return lambda original, read, weights: recall(original, read, weights, k)


def reconstruction(original: Float32Array, read: Float32Array, weights: Weights) -> float:
    """``1 − Σ_k w_k ‖x_k − y_k‖² / Σ_k w_k ‖x_k − x̄‖²``: the share of the variance that is left."""
    whole = original - np.average(original, axis=0, weights=weights).astype(np.float32)
    missed, spread = (_weighted(part, weights) for part in (original - read, whole))
    return 1 - missed / spread if spread else float(missed == 0)


def cosine(original: Float32Array, read: Float32Array, weights: Weights) -> float:
    """``Σ_k w_k cos(x_k, y_k) / Σ_k w_k``"""
    similar = np.einsum("kd,kd->k", unit(original), unit(read))
    return float(np.average(similar, weights=weights))


def recall(original: Float32Array, read: Float32Array, weights: Weights, k: int) -> float:
    """The share of the k nearest others, by cosine, that are still among the k nearest."""
    k = min(k, len(original) - 1)
    if k < 1:
        return 1.0
    true, found = (neighbours(unit(vectors), k) for vectors in (original, read))
    hits = np.array([len(np.intersect1d(*both)) for both in zip(true, found, strict=True)])
    return float(np.average(hits, weights=weights)) / k


def neighbours(vectors: Float32Array, k: int) -> Int64Array:
    """The k others with the largest products, (n, k), in no order."""
    found = np.empty((len(vectors), k), dtype=np.int64)
    for start in range(0, len(vectors), QUERIES_AT_ONCE):
        part = slice(start, min(start + QUERIES_AT_ONCE, len(vectors)))
        products = vectors[part] @ vectors.T
        products[np.arange(part.stop - start), np.arange(start, part.stop)] = -np.inf
        found[part] = np.argpartition(-products, k - 1, axis=1)[:, :k]
    return found


def unit(vectors: Float32Array) -> Float32Array:
    """Each at length 1; zero stays zero."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: Float32Array = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
    return found


def _weighted(vectors: Float32Array, weights: Weights) -> float:
    return float(np.einsum("kd,kd,k->", vectors, vectors, weights, dtype=np.float64))


PLAIN: dict[str, Measure] = {"reconstruction": reconstruction, "cosine": cosine}
