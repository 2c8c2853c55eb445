"""A hash of 64-bit integers, the same everywhere: for reproducible choices without a generator."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finaliser: a bijection of 64-bit words that scatters close values."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
