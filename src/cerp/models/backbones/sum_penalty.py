"""The penalty of vectors of LightGCN that are sums of rows, without a table of all vectors."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor
from torch.autograd.function import once_differentiable

from cerp.models.embeddings.composition import Composition
from cerp.models.sparse import Csr
from cerp.pruning.functional import PENALTY_VALUES, write_penalty_gradient


def penalty_of_sums(
    weight: Tensor, composition: Composition, counts: Tensor, temperature: float
) -> Tensor:
    """`cerp.pruning.functional.pruning_penalty` of ``composition.table(weight)``.

    On GPUs only where `cerp.kernels.triton_there` has kernels. Differentiable in the weight, once.
    """
    way = _KernelPenalty if weight.is_cuda else _ChosenPenalty
    penalty: Tensor = way.apply(  # type: ignore[no-untyped-call]
        weight, composition, counts, temperature
    )
    return penalty


class _KernelPenalty(torch.autograd.Function):
    """No table is made forward, and backward there is one pass over that of gradients."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, composition: Composition, counts: Tensor, temperature: float
    ) -> Tensor:
        from cerp.kernels.penalty import penalty_of_sums

        rows = composition.rows_of_entities.columns.view(len(counts), -1)
        penalty, gradient = penalty_of_sums(weight.contiguous(), rows, counts, temperature)
        ctx.save_for_backward(gradient)
        ctx.composition = composition
        return penalty

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return ctx.composition.entities_of_rows.times(gradient).mul_(grad), None, None, None


class _ChosenPenalty(torch.autograd.Function):
    """Of the vectors that count, a few at a time, in cache; value and gradient in one pass."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, composition: Composition, counts: Tensor, temperature: float
    ) -> Tensor:
        chosen = counts.nonzero().flatten()
        number, width = len(chosen), weight.shape[1]
        # The last line, of zeros, is that of all vectors that do not count.
        gradient = weight.new_empty(number + 1, width)
        gradient[number] = 0
        total, at_once = weight.new_zeros(()), max(PENALTY_VALUES // width, 1)
        pieces = (
            torch.split(each, at_once)
            for each in (composition.rows_of(chosen), counts[chosen][:, None], gradient[:number])
        )
        for rows, count, place in zip(*pieces, strict=True):
            vectors = F.embedding_bag(rows, weight, mode="sum")
            total += write_penalty_gradient(place, vectors, count, temperature)
        entities = composition.entities_of_rows
        lines = entities.columns.new_full(counts.shape, number)
        lines[chosen] = torch.arange(number, dtype=lines.dtype)
        ctx.gradient = Csr(entities.offsets, lines[entities.columns]).times(gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.gradient * grad, None, None, None
