"""The MLP's layers on a GPU: the vendor's products, and one kernel between each two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from cerp.kernels.triton_there import pay_off

FEWEST_COLUMNS = 8
"""Of a tile: widths of hidden layers are multiples."""
WIDEST = 1024
"""The last hidden layer, which a tile has whole, in a power of two."""


def takes(vectors: Tensor, layers: Sequence[nn.Linear]) -> bool:
    """Whether kernels are for these layers of a batch's vectors."""
    return (
        vectors.is_cuda
        and vectors.dtype == layers[0].weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cuda")
        and takes_widths([one.out_features for one in layers[:-1]])
        and pay_off(vectors.device, len(vectors))
    )


def takes_widths(hidden: Sequence[int]) -> bool:
    """Whether kernels are for hidden layers of such widths."""
    last = hidden[-1]
    is_tile = last <= WIDEST and last & (last - 1) == 0
    return is_tile and all(width % FEWEST_COLUMNS == 0 for width in hidden)


def tower_scores(vectors: Tensor, users: int, layers: Sequence[nn.Linear]) -> Tensor:
    """Scores of the pairs, (B, m), of the vectors of B users, then of m items each.

    The first layer's halves are apart, as in `cerp.models.backbones.mlp`. Differentiable once.
    """
    weights = [value for one in layers for value in (one.weight, one.bias)]
    scores: Tensor = _Tower.apply(vectors, users, *weights)  # type: ignore[no-untyped-call]
    return scores.view(users, -1)


class _Tower(torch.autograd.Function):
    """Hidden layers are kept for the way back, after their relu."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, users: int, *weights: Tensor) -> Tensor:
        from cerp.kernels.tower import add_halves, last_scores

        width = vectors.shape[1]
        of_user, of_item = torch.split(weights[0], width, dim=1)
        hidden = vectors[users:] @ of_item.T
        add_halves(hidden, torch.addmm(weights[1], vectors[:users], of_user.T))
        kept = [hidden]
        for weight, bias in zip(weights[2:-2:2], weights[3:-2:2], strict=True):
            # With the relu in the product's own last step.
            kept.append(torch._addmm_activation(bias, kept[-1], weight.T))
        ctx.save_for_backward(vectors, *weights, *kept)
        ctx.users, ctx.count = users, len(weights)
        return last_scores(kept[-1], weights[-2][0], weights[-1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from cerp.kernels.tower import last_gradients, mask, mask_halves

        vectors, weights = ctx.saved_tensors[0], ctx.saved_tensors[1 : 1 + ctx.count]
        kept, users = ctx.saved_tensors[1 + ctx.count :], ctx.users
        back, to_bias, to_weight, to_last = last_gradients(
            grad.contiguous(), kept[-1], weights[-2][0]
        )
        found = [to_weight[None], to_last]
        for layer in range(len(kept) - 1, 0, -1):
            found = [back.T @ kept[layer - 1], to_bias, *found]
            back = back @ weights[2 * layer]
            if layer > 1:
                to_bias = mask(back, kept[layer - 1])
        of_users, to_bias = mask_halves(back, kept[0], users)
        first = torch.cat([of_users.T @ vectors[:users], back.T @ vectors[users:]], dim=1)
        to_vectors = torch.empty_like(vectors)
        of_user, of_item = torch.split(weights[0], vectors.shape[1], dim=1)
        torch.mm(of_users, of_user, out=to_vectors[:users])
        torch.mm(back, of_item, out=to_vectors[users:])
        return to_vectors, None, first, to_bias, *found
