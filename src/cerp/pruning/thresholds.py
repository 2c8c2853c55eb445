"""Where thresholds start.

A threshold at S = -100 cuts nothing, and σ'(S) is 0 in float32, so the loss
cannot move it either: what moves it is one of `cerp.pruning.clocks`.
"""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor, nn

from cerp.choices import ThresholdStart
from cerp.errors import ConfigError


def initial_threshold(
    name: ThresholdStart, like: Tensor, scale: float, generator: torch.Generator | None = None
) -> Tensor:
    """``S = scale · B`` with a base matrix B in [0, 1] and a negative scale (paper: -100).

    - ``ones``: B = 1;
    - ``uniform``, ``normal``: B drawn from that distribution;
    - ``long-tail``: ``B = u²`` with u uniform;
    - ``xavier-uniform``: uniform on ±√(6 / (rows + columns)).

    Random bases are scaled to [0, 1] by the minimum and maximum of the whole
    matrix. The authors do it row by row; then the minimum of every row becomes
    S = 0 and is cut at once by σ(0) = 1/2. After the scaling, Xavier-uniform is
    distributed as uniform is; both exist because the paper compares both.
    """
    if name not in get_args(ThresholdStart):
        names = ", ".join(get_args(ThresholdStart))
        raise ConfigError(f"there is no threshold start {name!r}; choose one of {names}")
    base = torch.ones_like(like)
    if name == "ones":
        return base * scale
    if name == "uniform":
        base.uniform_(generator=generator)
    elif name == "normal":
        base.normal_(generator=generator)
    elif name == "long-tail":
        base.uniform_(generator=generator).square_()
    else:
        nn.init.xavier_uniform_(base, generator=generator)
    low, high = base.aminmax()
    return (base - low) / (high - low) * scale
