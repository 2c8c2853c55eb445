# ruff: noqa: ANN001, ANN202, N803  (Triton reads annotations as its own, and has constants in capitals)
# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""A step of Adam on one or two parameters by tiles that fill a GPU.

Torch's kernel has tiles of 65,536 values: a million of them keep few of the multiprocessors busy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

VALUES = 1024
"""Of a tile."""


class Moved(NamedTuple):
    """A parameter, and what its step is made of; all lies on the device."""

    parameter: Tensor
    grad: Tensor
    first: Tensor
    second: Tensor
    step: Tensor
    """Its number."""


def adam_step(
    moved: Moved,
    other: Moved | None,
    rate: Tensor,
    *,
    betas: tuple[float, float],
    weight_decay: float,
    decoupled: bool,
    epsilon: float,
) -> None:
    """What torch's fused Adam, or AdamW where decay is ``decoupled``, does.

    Two parameters, such as weights and thresholds, are moved by one kernel.
    """
    second = moved if other is None else other
    counts = moved.parameter.numel(), second.parameter.numel()
    _step[(triton.cdiv(max(counts), VALUES), 1 if other is None else 2)](
        *(moved.parameter, moved.grad.contiguous(), *moved[2:]),
        *(second.parameter, second.grad.contiguous(), *second[2:]),
        rate,
        *counts,
        *(1 - betas[0], 1 - betas[1], math.log(betas[0]), math.log(betas[1])),
        *(0.0 if decoupled else weight_decay, weight_decay if decoupled else 0.0, epsilon),
        VALUES,
    )


@triton.jit
def _one_minus_exp(power):
    """``1 − e^x`` for x <= 0, without cancellation near zero."""
    near = 1 + power / 2 * (1 + power / 3 * (1 + power / 4 * (1 + power / 5 * (1 + power / 6))))
    return tl.where(power > -0.2, -power * near, 1 - tl.exp(power))


@triton.jit
def _move(
    parameter,
    grad,
    first,
    second,
    step,
    rate,
    count,
    first_share,
    second_share,
    first_log,
    second_log,
    coupled_decay,
    decoupled_decay,
    epsilon,
    VALUES: tl.constexpr,
) -> None:
    places = tl.program_id(0) * VALUES + tl.arange(0, VALUES)
    is_there = places < count
    number, size = tl.load(step), tl.load(rate)
    value = tl.load(parameter + places, mask=is_there, other=0.0)
    slope = tl.load(grad + places, mask=is_there, other=0.0) + coupled_decay * value
    value -= size * decoupled_decay * value
    mean = tl.load(first + places, mask=is_there, other=0.0)
    mean += first_share * (slope - mean)
    square = tl.load(second + places, mask=is_there, other=0.0)
    square += second_share * (slope * slope - square)
    spread = tl.sqrt(square) / tl.sqrt(_one_minus_exp(number * second_log)) + epsilon
    value -= size / _one_minus_exp(number * first_log) * mean / spread
    tl.store(parameter + places, value, mask=is_there)
    tl.store(first + places, mean, mask=is_there)
    tl.store(second + places, square, mask=is_there)


@triton.jit
def _step(
    parameter,
    grad,
    first,
    second,
    step,
    other_parameter,
    other_grad,
    other_first,
    other_second,
    other_step,
    rate,
    count,
    other_count,
    first_share,
    second_share,
    first_log,
    second_log,
    coupled_decay,
    decoupled_decay,
    epsilon,
    VALUES: tl.constexpr,
) -> None:
    if tl.program_id(1) == 0:
        _move(
            parameter,
            grad,
            first,
            second,
            step,
            rate,
            count,
            first_share,
            second_share,
            first_log,
            second_log,
            coupled_decay,
            decoupled_decay,
            epsilon,
            VALUES,
        )
    else:
        _move(
            other_parameter,
            other_grad,
            other_first,
            other_second,
            other_step,
            rate,
            other_count,
            first_share,
            second_share,
            first_log,
            second_log,
            coupled_decay,
            decoupled_decay,
            epsilon,
            VALUES,
        )
