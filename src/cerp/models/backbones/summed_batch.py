"""A training batch on a GPU whose vectors are sums of rows: scores and penalty by kernels.

Vectors are read as rows of Ŵ, which stay in cache, and what comes back to them goes straight to
these rows, that of scores and of the penalty in one pass.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor
from torch.autograd.function import once_differentiable

from cerp.kernels.tiles import takes_width
from cerp.kernels.triton_there import pay_off
from cerp.models.backbones.base import BatchOutput, BatchVectors, gathered
from cerp.models.embeddings.base import Embedding


class _Penalised:
    """What the penalty says on the way back to those who read the same vectors."""

    def __init__(self, users: Tensor) -> None:
        self.users = users
        self.drawn: Tensor | None = None
        self.temperature: float | None = None


class SummedBatch:
    """``e_k = Σ_j Ŵ[r_kj]`` for B users, then their items.

    Ask for `scores` or `vectors` first, once, and then for the `penalty`, whose gradient goes
    back with theirs. Differentiable in Ŵ, once.
    """

    def __init__(self, weight: Tensor, rows: Tensor, users: Tensor, num_users: int) -> None:
        self.weight, self.rows = weight, rows
        self._penalised = _Penalised(users)
        self._num_users = num_users
        self._carrier: Tensor | None = None

    def scores(self, items: int) -> Tensor:
        """``⟨e_b, e_bj⟩`` of each user with so many items, (B, items)."""
        scores: Tensor
        scores, self._carrier = _PairScores.apply(  # type: ignore[no-untyped-call]
            self.weight, self.rows, items, self._penalised
        )
        return scores

    def vectors(self) -> Tensor:
        """(n, d)"""
        vectors: Tensor
        vectors, self._carrier = _Vectors.apply(  # type: ignore[no-untyped-call]
            self.weight, self.rows, self._penalised
        )
        return vectors

    def output(self, scores: Tensor) -> BatchOutput:
        """What the objective needs; vectors are for other penalties than the usual one."""

        def vectors() -> BatchVectors:
            looked_up = F.embedding(self.rows, self.weight).sum(1)
            return gathered(self._penalised.users, looked_up)

        return BatchOutput(scores, vectors, self.penalty)

    def penalty(self, temperature: float) -> Tensor:
        """``−Σ_k w_k ‖tanh(η e_k)‖²``; a user counts once in all, an item each time."""
        asked = self._penalised
        if asked.temperature not in (None, temperature):
            raise RuntimeError("a batch has its penalty at one temperature")
        if asked.drawn is None:
            drawn = self.weight.new_zeros(self._num_users)
            ones = drawn.new_ones(()).expand(len(asked.users))
            asked.drawn = drawn.scatter_add_(0, asked.users, ones)
            asked.temperature = temperature
        penalty: Tensor = _Penalty.apply(  # type: ignore[no-untyped-call]
            self._carrier, self.weight.detach(), self.rows, asked
        )
        return penalty


def summed_batch(
    embedding: Embedding, users: Tensor, items: Tensor, num_users: int
) -> SummedBatch | None:
    """The batch of users (B,) and their items (B, m), by codes; None: not by kernels."""
    if not (users.is_cuda and takes_width(embedding.embedding_dim)):
        return None
    if not pay_off(users.device, users.numel() + items.numel()):
        return None
    chosen = embedding.chosen_rows()
    if chosen is None or (weight := chosen.weight()).dtype != torch.float32:
        return None
    if chosen.of_all is None:
        rows = chosen.of(torch.cat([users, items.flatten() + num_users]))
    else:
        from cerp.kernels.row_sums import batch_rows

        rows = batch_rows(chosen.of_all, users, items, num_users)
    return SummedBatch(weight.contiguous(), rows, users.contiguous(), num_users)


class _PairScores(torch.autograd.Function):
    """The second result says nothing itself: through it the penalty's gradient comes back."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, rows: Tensor, items: int, penalised: _Penalised
    ) -> tuple[Tensor, Tensor]:
        from cerp.kernels.pair_scores import pair_scores

        ctx.save_for_backward(weight, rows)
        ctx.penalised = penalised
        return pair_scores(weight, rows, items), weight.new_empty(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, of_penalty: Tensor) -> tuple[Tensor, None, None, None]:
        from cerp.kernels.pair_scores import pair_gradient

        weight, rows = ctx.saved_tensors
        penalty = _batch_penalty(ctx.penalised, of_penalty)
        return pair_gradient(weight, rows, grad, penalty=penalty), None, None, None


class _Vectors(torch.autograd.Function):
    """Where something else than dot products makes scores of them."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, rows: Tensor, penalised: _Penalised
    ) -> tuple[Tensor, Tensor]:
        from cerp.kernels.row_sums import batch_vectors

        vectors = batch_vectors(weight, rows)
        ctx.save_for_backward(vectors, rows)
        ctx.penalised, ctx.height = penalised, len(weight)
        return vectors, weight.new_empty(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, of_penalty: Tensor) -> tuple[Tensor, None, None]:
        from cerp.kernels.row_sums import batch_gradient

        vectors, rows = ctx.saved_tensors
        penalty = _batch_penalty(ctx.penalised, of_penalty)
        return batch_gradient(vectors, rows, grad, ctx.height, penalty), None, None


class _Penalty(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, carrier: Tensor, weight: Tensor, rows: Tensor, penalised: _Penalised
    ) -> Tensor:
        from cerp.kernels.penalty import penalty_of_batch

        assert penalised.drawn is not None
        assert penalised.temperature is not None
        return penalty_of_batch(
            weight, rows, penalised.users, penalised.drawn, penalised.temperature
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return grad, None, None, None


def _batch_penalty(penalised: _Penalised, grad: Tensor) -> Any:
    """What kernels take; None where no penalty was asked for."""
    from cerp.kernels.penalty import BatchPenalty

    if penalised.drawn is None or penalised.temperature is None:
        return None
    return BatchPenalty(penalised.users, penalised.drawn, grad, penalised.temperature)
