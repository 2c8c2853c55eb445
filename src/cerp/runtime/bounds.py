"""Which items can be in a list at all, from a part of their numbers.

For a single user the product with all item vectors takes as long as it takes to
read them from memory. Trained vectors have most of their length in few
directions, so it is enough to read those: with v' the part of v along them and
v″ the rest, ``⟨q, v⟩ <= ⟨q', v'⟩ + ‖q″‖·‖v″‖`` (Cauchy-Schwarz). The items whose
bound reaches the k-th best of some exact scores are the only ones to look at.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cerp.artifact.model import FloatArray

DoubleArray = npt.NDArray[np.float64]

LENGTH_HELD = 0.75
"""So many directions are read that they hold this share of all squared lengths."""
MOST_DIRECTIONS = 0.5
"""If those are more than this share of the directions, little is saved by reading them only."""
WIDEST = 512
"""Numbers in a vector; finding the directions of wider ones takes longer than it can save."""


class Bounds:
    """Estimates of scores from the leading directions, and how far they may be too low."""

    def __init__(self, items: FloatArray, directions: DoubleArray, norms: DoubleArray) -> None:
        leading = items @ directions
        rest = norms**2 - np.einsum("nd,nd->n", leading, leading)
        self.directions = directions
        self.leading = leading.astype(np.float32)
        self.rest = np.sqrt(np.maximum(rest, 0)).astype(np.float32)

    @classmethod
    def of(cls, items: FloatArray, norms: DoubleArray) -> Bounds | None:
        """Of item vectors with these norms; None where they would not help."""
        if items.shape[1] > min(WIDEST, len(items)):
            return None
        with np.errstate(over="ignore"):
            products = (items.T @ items).astype(np.float64)
        if not np.isfinite(products).all():
            return None
        lengths, directions = np.linalg.eigh(products)
        held = np.cumsum(lengths[::-1])
        wanted = int(np.searchsorted(held, LENGTH_HELD * held[-1])) + 1
        if wanted > MOST_DIRECTIONS * items.shape[1]:
            return None
        return cls(items, directions[:, -wanted:], norms)

    def estimates(
        self, queries: npt.NDArray[np.floating], norms: DoubleArray
    ) -> tuple[FloatArray, FloatArray]:
        """``⟨q', v'⟩``, and ``‖q″‖·‖v″‖``: both (len(queries), number of items)."""
        leading = queries @ self.directions
        rest = norms**2 - np.einsum("nd,nd->n", leading, leading)
        rest = np.sqrt(np.maximum(rest, 0)).astype(np.float32)
        return leading.astype(np.float32) @ self.leading.T, rest[:, None] * self.rest
