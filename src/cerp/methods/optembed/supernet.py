"""OptEmbed: a supernet learns which rows to drop, evolution finds how wide the others are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.data.ids import Int64Array
from cerp.errors import ConfigError, DataError
from cerp.methods.optembed.widths import EntityWidths, FieldWidths, WidthSpace, tilted_shares
from cerp.methods.popularity_networks import check_sides
from cerp.models.embeddings.base import Embedding

Genes = Literal["field", "entity"]


class Supernet(Embedding):
    """``ê_k = 1{‖E_k‖₁ / m > τ_f} · E_k ⊙ 1{column <= D}`` (Lyu et al., CIKM 2022).

    τ_f is a learned threshold for each field f, users and items. In training D
    is drawn anew for every lookup (in `table` once for each field and step), so
    that E learns to have what matters in its first columns; in evaluation D
    is d, or what `trying` says. The step function has the gradient of
    `surrogate`; the loss has ``α·Σ_f exp(−τ_f)`` (`threshold_penalty`) to drive
    the thresholds up, which learn by plain SGD.

    The stages, in `cerp.methods.optembed.method`: train the supernet, search
    `search_space` by `cerp.methods.optembed.evolution.evolve` with the selection metric on
    validation as the fitness, and train the first values of ``weight`` under the mask (`mask_of`)
    of the best widths.

    ``genes`` says what the search chooses: a width for each ``field``, which is
    the original, or for each ``entity``, since two numbers are little to choose
    from. For entities, widths in training are drawn from a geometric
    distribution with the mean that the budget allows.

    Where we differ: m, the mean norm of all rows at present, is 1 in the original. The surrogate
    is zero where a norm is more than 1 from its threshold, and norms grow with d and in training:
    of d = 64 after 10 epochs they are 1.2 to 29, no row can move its threshold, and none is ever
    dropped (results/optembed.json). In shares of m, thresholds act whatever d and the values are.
    The original knows no budget; here the search stays within one. Widths are drawn as a function
    of ``seed`` and ``step`` alone, which the training stage counts, so that a resumed run is the
    same run. In the original code mutations change their parents, and the best found with them;
    here nothing is changed in place.
    """

    width_cdf: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        num_users: int,
        genes: Genes = "field",
        mean_width: float | None = None,
        seed: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        check_sides(num_users, num_embeddings)
        if genes not in get_args(Genes):
            raise ConfigError(f"OptEmbed has no genes for each {genes!r}; choose field or entity")
        self.num_users, self.genes, self.seed, self.step = num_users, genes, seed, 0
        self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim))
        nn.init.xavier_uniform_(self.weight, generator=generator)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0
        self.row_thresholds = nn.Parameter(torch.zeros(2))
        shares = tilted_shares(embedding_dim, mean_width)
        cdf = torch.from_numpy(np.cumsum(shares)).float()
        self.register_buffer("width_cdf", cdf, persistent=False)
        self._tried: Tensor | None = None

    @classmethod
    def for_limit(
        cls,
        num_embeddings: int,
        embedding_dim: int,
        limit: int,
        *,
        padding_idx: int | None = None,
        num_users: int,
        genes: Genes = "field",
        seed: int = 0,
        generator: torch.Generator | None = None,
    ) -> Supernet:
        """A supernet for the search of at most ``limit`` values.

        The supernet itself has N·d; the limit holds for what is found in it.
        """
        return cls(
            num_embeddings,
            embedding_dim,
            padding_idx,
            num_users=num_users,
            genes=genes,
            mean_width=limit / num_embeddings if genes == "entity" else None,
            seed=seed,
            generator=generator,
        )

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids: shape (*,) to (*, embedding_dim)."""
        rows = F.embedding(ids, self.weight)
        widths = self._drawn(ids.shape) if self.training else self._chosen(ids)
        return self._zero_padding(self._masked(rows, ids, widths), ids)

    def table(self) -> Tensor:
        """The vectors of all ids, (num_embeddings, embedding_dim)."""
        ids = torch.arange(self.num_embeddings, device=self.weight.device)
        if not self.training:
            widths = self._chosen(ids)
        elif self.genes == "entity":
            widths = self._drawn(ids.shape)
        else:
            of_users, of_items = self._drawn(torch.Size([2]))
            widths = torch.where(ids < self.num_users, of_users, of_items)
        return self._zero_padding(self._masked(self.weight, ids, widths))

    def threshold_penalty(self) -> Tensor:
        """``Σ_f exp(−τ_f)``"""
        return torch.exp(-self.row_thresholds).sum()

    @torch.no_grad()
    def kept_rows(self) -> Tensor:
        """Which rows are above their threshold, (num_embeddings,)."""
        ids = torch.arange(self.num_embeddings, device=self.weight.device)
        kept = self._margin(self.weight, ids) > 0
        return kept if self.padding_idx is None else kept & (ids != self.padding_idx)

    @torch.no_grad()
    def active_share(self) -> float:
        """The share of rows within 1 of their threshold: only these can still move it."""
        ids = torch.arange(self.num_embeddings, device=self.weight.device)
        return float((surrogate(self._margin(self.weight, ids)) > 0).float().mean())

    def search_space(self, limit: int) -> WidthSpace:
        """The widths that keep at most ``limit`` values, in the rows that are kept now."""
        kept = self.kept_rows().cpu().numpy()
        if self.genes == "entity":
            return EntityWidths(kept.astype(np.int64), self.embedding_dim, limit)
        counts = [int(side.sum()) for side in np.split(kept, [self.num_users])]
        return FieldWidths(np.array(counts), self.embedding_dim, limit)

    @contextmanager
    def trying(self, widths: Int64Array) -> Iterator[None]:
        """Evaluation inside uses these genes."""
        self._tried = self._by_entity(widths)
        try:
            yield
        finally:
            self._tried = None

    def mask_of(self, widths: Int64Array) -> Tensor:
        """What genes keep: the first D columns of the rows above their threshold, (N, d)."""
        columns = torch.arange(self.embedding_dim, device=self.weight.device)
        kept = self.kept_rows()[:, None]
        return kept & (columns < self._by_entity(widths)[:, None])

    @property
    def nnz(self) -> int:
        """Values in the rows that are kept, up to the widths being tried."""
        kept = self.kept_rows()
        if self._tried is None:
            return int(kept.sum()) * self.embedding_dim
        return int(self._tried[kept].sum())

    def _masked(self, rows: Tensor, ids: Tensor, widths: Tensor | None) -> Tensor:
        kept: Tensor = _Step.apply(self._margin(rows, ids))  # type: ignore[no-untyped-call]
        vectors = rows * kept[..., None]
        if widths is None:
            return vectors
        columns = torch.arange(self.embedding_dim, device=rows.device)
        return vectors * (columns < widths[..., None])

    def _margin(self, rows: Tensor, ids: Tensor) -> Tensor:
        """``‖E_k‖₁ / m − τ_f``"""
        of_users, of_items = self.row_thresholds
        norms = rows.abs().sum(dim=-1) / self._mean_norm()
        return norms - torch.where(ids < self.num_users, of_users, of_items)

    @torch.no_grad()
    def _mean_norm(self) -> Tensor:
        """Of all rows; above zero."""
        smallest = torch.finfo(self.weight.dtype).tiny
        return self.weight.abs().sum(dim=-1).mean().clamp_min(smallest)

    def _drawn(self, shape: torch.Size) -> Tensor:
        """Random widths, the same whenever asked for at the same step."""
        words = np.random.SeedSequence((self.seed, self.step)).generate_state(1, np.uint64)
        generator = torch.Generator(device=self.weight.device)
        generator.manual_seed(int(words[0]) >> 1)
        draws = torch.rand(shape, generator=generator, device=self.weight.device)
        below = torch.searchsorted(self.width_cdf.float(), draws, right=True)
        return (below + 1).clamp(max=self.embedding_dim)

    def _chosen(self, ids: Tensor) -> Tensor | None:
        return None if self._tried is None else self._tried[ids]

    def _by_entity(self, widths: Int64Array) -> Tensor:
        sides = [self.num_users, self.num_embeddings - self.num_users]
        expected = len(sides) if self.genes == "field" else self.num_embeddings
        if len(widths) != expected or widths.min() < 1 or widths.max() > self.embedding_dim:
            raise DataError(
                f"widths must hold {expected} numbers from 1 to {self.embedding_dim}, "
                f"one for each {self.genes}"
            )
        every = np.repeat(widths, sides) if self.genes == "field" else widths.copy()
        return torch.from_numpy(every).to(self.weight.device)


def surrogate(margin: Tensor) -> Tensor:
    """The slope given to the step function: ``2 − 4|x|`` up to 0.4, 0.4 up to 1, 0 beyond."""
    size = margin.abs()
    return torch.where(size <= 0.4, 2 - 4 * size, torch.where(size <= 1, 0.4, 0.0))


class _Step(torch.autograd.Function):
    """``1{x > 0}`` with the gradient of `surrogate`."""

    @staticmethod
    def forward(ctx: Any, margin: Tensor) -> Tensor:
        ctx.save_for_backward(margin)
        return (margin > 0).to(margin.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (margin,) = ctx.saved_tensors
        return grad * surrogate(margin)
