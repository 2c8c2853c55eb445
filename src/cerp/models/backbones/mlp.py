"""The deep tower of neural collaborative filtering."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.data.ids import Int32Array
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError
from cerp.models.backbones.base import Backbone, BatchOutput, gathered, user_codes
from cerp.models.backbones.kernel_tower import takes, tower_scores
from cerp.models.backbones.summed_batch import summed_batch
from cerp.models.embeddings.base import Embedding
from cerp.models.layers import linear

SCORING_BYTES = {"cpu": 16 * 2**20, "cuda": 256 * 2**20}
"""Size of the largest activations in `MLPScorer`, unless there are more users than fit: on a CPU
they stay in cache, on a GPU a kernel is to take longer than its launch."""


def hidden_widths(reference_dim: int) -> tuple[int, int, int]:
    """Three hidden layers, each half of the one before, starting from the input's 2d.

    128-64-32 for d = 128. One rule for every embedding method: a method with
    shorter vectors gets the same tower and only a narrower input.
    """
    if reference_dim < 4:
        raise ConfigError(
            f"three halving layers need a reference dimension of at least 4, got {reference_dim}"
        )
    return reference_dim, reference_dim // 2, reference_dim // 4


class MLP(Backbone):
    """``score(u, i) = w·relu(W₃ relu(W₂ relu(W₁ [e_u; e_i] + b₁) + b₂) + b₃) + b``

    The first layer is evaluated as ``(W_u e_u + b₁) + W_i e_i`` with W₁ = [W_u W_i]:
    a user's half is computed once, not once for every item. Weights are
    Xavier-uniform and biases zero.

    ``hidden`` has other widths than `hidden_widths`, such as the 512, 1024 and 2048 of CERP's
    authors, and with ``batch_norm`` every hidden layer is normalised before its relu, as theirs
    are: by the batch in training, by running means afterwards. A model file has no
    normalisation: it is folded into the layers (`shipped_weights`). Of several processes each
    normalises by its own part of the batch.
    """

    capturable = True
    head = "tower"

    def __init__(
        self,
        train: Interactions,
        *,
        embedding_dim: int,
        generator: torch.Generator | None = None,
        reference_dim: int = 128,
        hidden: Sequence[int] | None = None,
        batch_norm: bool = False,
    ) -> None:
        super().__init__(train, embedding_dim=embedding_dim)
        inner = hidden_widths(reference_dim) if hidden is None else tuple(hidden)
        if not inner or any(not isinstance(width, int) or width < 1 for width in inner):
            raise ConfigError(
                f"hidden is {hidden!r}; give the width of each hidden layer, such as (128, 64, 32)"
            )
        widths = (*inner, 1)
        self.widening = max(inner) / inner[0]
        self.first = linear(2 * embedding_dim, widths[0], generator)
        self.rest = nn.ModuleList(linear(*sizes, generator) for sizes in pairwise(widths))
        self.norms = nn.ModuleList(map(nn.BatchNorm1d, inner if batch_norm else ()))

    def forward(self, embedding: Embedding, users: Tensor, items: Tensor) -> BatchOutput:
        """Scores of a training batch: user codes (B,) against item codes (B, m)."""
        batch = summed_batch(embedding, users, items, self.num_users)
        vectors = embedding(self.entities(users, items)) if batch is None else batch.vectors()
        scores = self._scores(vectors, users, items)
        if batch is not None:
            return batch.output(scores)
        return BatchOutput(scores, partial(gathered, users, vectors))

    def _scores(self, vectors: Tensor, users: Tensor, items: Tensor) -> Tensor:
        layers: list[Any] = [self.first, *self.rest]
        if not self.norms and takes(vectors, layers):
            return tower_scores(vectors, users.numel(), layers)
        user_vectors, item_vectors = torch.split(vectors, [users.numel(), items.numel()])
        item_halves = self.item_half(item_vectors).view(*items.shape, -1)
        return self.tower(self.user_half(user_vectors)[:, None] + item_halves)

    @torch.no_grad()
    def entity_values(self) -> int:
        """None: the layers belong to all, whatever their widths."""
        return 0

    def scorer(self, embedding: Embedding) -> MLPScorer:
        """The items' halves of the first layer once; those of users as they are scored."""
        return MLPScorer(self, embedding)

    def user_half(self, vectors: Tensor) -> Tensor:
        """``W_u e_u + b₁``"""
        return F.linear(vectors, self.first.weight[:, : self.embedding_dim], self.first.bias)

    def item_half(self, vectors: Tensor) -> Tensor:
        """``W_i e_i``"""
        return F.linear(vectors, self.first.weight[:, self.embedding_dim :])

    def tower(self, first: Tensor) -> Tensor:
        """Scores (*,) from the first layer's sums (*, width), which it overwrites."""
        hidden = first
        for number, layer in enumerate(self.rest):
            if self.norms:
                rows = hidden.flatten(0, -2)
                hidden = self.norms[number](rows).view_as(hidden)
            # In place: neither an addition nor a linear layer needs its output for its gradient.
            hidden = layer(hidden.relu_())
        return hidden.squeeze(-1)

    @torch.no_grad()
    def shipped_weights(self) -> dict[str, Tensor]:
        """Those of `first` and `rest`, with normalisation folded in.

        ``g (W x + b − m) / √(v + ε) + β = (s W) x + s (b − m) + β`` with ``s = g / √(v + ε)``.
        """
        weights = {name: value for name, value in self.state_dict().items() if "norms." not in name}
        layers = ["first", *(f"rest.{number}" for number in range(len(self.rest)))]
        for layer, norm in zip(layers, self.norms, strict=False):
            assert isinstance(norm, nn.BatchNorm1d)
            mean, variance = norm.running_mean, norm.running_var
            assert mean is not None
            assert variance is not None
            scale = norm.weight / torch.sqrt(variance + norm.eps)
            weights[f"{layer}.weight"] = scale[:, None] * weights[f"{layer}.weight"]
            shifted = weights[f"{layer}.bias"] - mean
            weights[f"{layer}.bias"] = scale * shifted + norm.bias
        return weights

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Weights with normalisation folded in need none."""
        if prefix + "norms.0.weight" not in state_dict:
            self.norms = nn.ModuleList()
        super()._load_from_state_dict(state_dict, prefix, *rest)


class MLPScorer:
    """All items for some users, a block of items at a time.

    The largest activations, (users, items of a block, width) floats, stay under the device's
    `SCORING_BYTES`, whatever the catalogue.
    """

    def __init__(self, mlp: MLP, embedding: Embedding) -> None:
        self.mlp, self.embedding = mlp, embedding
        self.item_halves = mlp.item_half(mlp.item_vectors(embedding))

    @torch.no_grad()
    def score_all(self, users: Int32Array) -> Tensor:
        """Scores of every item, (len(users), num_items)."""
        codes = user_codes(users, self.item_halves.device)
        user_halves = self.mlp.user_half(self.embedding(codes))[:, None]
        scores = user_halves.new_empty(len(users), len(self.item_halves))
        allowed = SCORING_BYTES[scores.device.type]
        items_at_once = max(1, int(allowed / max(1, self.mlp.widening * user_halves.nbytes)))
        blocks = torch.split(self.item_halves, items_at_once)
        for block, into in zip(blocks, torch.split(scores, items_at_once, dim=1), strict=True):
            into.copy_(self.mlp.tower(user_halves + block))
        return scores
