"""Recommend from a shipped model with NumPy alone.

    runtime = cerp.load("model.cerp")
    runtime.recommend("user-42", k=10)

What is computed is defined to the last bit, so that this module and the page's
JavaScript rank alike, whatever the machine:

- Vectors are float32. Those of the embedding are composed in float32, as in
  training. Those over a graph are propagated in float64, neighbours in ascending order,
  and rounded once (`cerp.runtime.propagation`).
- A score is the float64 sum of the products of two such vectors, rounded to
  float32; for a tower all layers are float64 and the score is rounded.
- Lists are ranked by that score, descending, and equal scores by item code,
  ascending: the rule of `cerp.evaluation.ranking`.

The fast float32 product of a BLAS decides only which items can be in a list,
with a bound on its rounding error; those few are scored by the rule
(`cerp.runtime.selection`).
"""

from __future__ import annotations

import os
from pathlib import Path

from cerp.artifact import read_whole
from cerp.runtime.limits import MAX_MEMORY
from cerp.runtime.recommending import Recommendation, Runtime

__all__ = ["Recommendation", "Runtime", "load"]


def load(path: str | os.PathLike[str], *, max_memory: int | str = MAX_MEMORY) -> Runtime:
    """Read a model file and make it ready to recommend.

    Parameters
    ----------
    path
        A ``.cerp`` file. It is read once, as a whole: what becomes of it later has no effect.
    max_memory
        What recommending from it may take, in bytes or as ``"2GB"``. A small file can describe
        vectors without end, which are composed as soon as it is loaded. The time that takes is
        bounded too, by this and the size of the file (`cerp.runtime.limits`).

    Returns
    -------
    Runtime
        The model, with its vectors composed; where it needs that, they are propagated when more
        than one list is asked for.

    Raises
    ------
    DataError
        The file cannot be read, or is no usable model file (`FileFormatError`).
    ConfigError
        It would take more memory, or more steps, than allowed.

    """
    data, model = read_whole(Path(path))
    return Runtime(model, file_bytes=len(data), max_memory=max_memory, one_list_first=True)
