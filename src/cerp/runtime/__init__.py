"""Recommend from a shipped model with NumPy alone.

    runtime = cerp.load("model.cerp")
    runtime.recommend("user-42", k=10)

What is computed is defined to the last bit, so that this module and the page's
JavaScript rank alike, whatever the machine:

- Vectors are float32. Those of the embedding are composed in float32, as in
  training. LightGCN's are propagated in float64, neighbours in ascending order,
  and rounded once (`cerp.runtime.propagation`).
- A score is the float64 sum of the products of two such vectors, rounded to
  float32; for the MLP all layers are float64 and the score is rounded.
- Lists are ranked by that score, descending, and equal scores by item code,
  ascending: the rule of `cerp.evaluation.ranking`.

The fast float32 product of a BLAS decides only which items can be in a list,
with a bound on its rounding error; those few are scored by the rule
(`cerp.runtime.selection`).
"""

from __future__ import annotations

import os
from pathlib import Path

from cerp.artifact import read
from cerp.runtime.recommending import Recommendation, Runtime

__all__ = ["Recommendation", "Runtime", "load"]


def load(path: str | os.PathLike[str]) -> Runtime:
    """Read a ``.cerp`` file and make it ready to recommend; a later change of it has no effect."""
    return Runtime(read(Path(path)))
