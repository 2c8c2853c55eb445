"""SASRec: a transformer over the items so far, whose outputs are compared with item vectors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.nn import Pruner
from examples.sequences.histories import Histories, last, windows

BATCH = 256
NEGATIVES = 1024
"""Items that the target is told from, the same for all places of a batch."""
CHOOSING = 3000
"""Users that epochs are chosen by."""


class SASRec(nn.Module):
    """``h = Transformer(E[items] + P)``; the score of item k after place t is ``⟨h_t, E[k]⟩``.

    ``items`` takes ids to vectors; ``table`` gives the vectors of all of them. The padding, 0, is
    left out by its place, so that its vector does not matter.
    """

    future: Tensor

    def __init__(
        self,
        items: nn.Module,
        table: Callable[[Any], Tensor],
        dim: int,
        length: int,
        *,
        blocks: int = 2,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        self.items: Any = items
        self._table, self.length = table, length
        self.places = nn.Parameter(torch.randn(length, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(
            dim, 1, 2 * dim, dropout, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, blocks, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        """States after each place, (B, length) to (B, length, d)."""
        is_item = (ids != 0).unsqueeze(-1)
        width = self.places.shape[1]
        start = self.dropout(self.items(ids) * width**0.5 + self.places) * is_item
        # A place of padding looks at itself, so that no row of attention is empty.
        hidden = (ids == 0).unsqueeze(1) & ~torch.eye(
            ids.shape[1], dtype=torch.bool, device=ids.device
        )
        states: Tensor = self.norm(self.blocks(start, mask=self.future | hidden))
        return states

    def table(self) -> Tensor:
        """Vectors of all items, the padding's first."""
        return self._table(self.items)


def train(
    model: SASRec,
    data: Histories,
    epochs: int,
    rate: float,
    *,
    seed: int = 0,
    pruner: Pruner | None = None,
) -> float:
    """Softmax over the next item and drawn ones; keep the best epoch by NDCG@10 on validation.

    The model as it comes counts as an epoch, unless a pruner is at work.
    """
    torch.manual_seed(seed)
    rows = torch.from_numpy(windows(data.training, model.length + 1)).to(model.places.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    chosen = replace(data, sequences=data.sequences[:CHOOSING])
    best, kept = -1.0, None
    if pruner is None:
        best, kept = ndcg(model, chosen, held=1), copy.deepcopy(model.state_dict())
    for _ in range(epochs):
        model.train()
        for batch in torch.randperm(len(rows)).split(BATCH):
            optimizer.zero_grad()
            loss(model, rows[batch], data.items).backward()
            optimizer.step()
            if pruner is not None:
                pruner.step()
        found = ndcg(model, chosen, held=1) if pruner is None else -1.0
        if found > best:
            best, kept = found, copy.deepcopy(model.state_dict())
    if kept is not None:
        model.load_state_dict(kept)
    return best


def loss(model: SASRec, rows: Tensor, items: int) -> Tensor:
    """Cross-entropy of each next item against drawn ones that it is not among."""
    seen, following = rows[:, :-1], rows[:, 1:]
    counted = (seen != 0) & (following != 0)
    states, targets = model(seen)[counted], following[counted]
    drawn = torch.randint(1, items + 1, (NEGATIVES,)).to(rows.device)
    table = model.table()
    own = (states * F.embedding(targets, table)).sum(-1, keepdim=True)
    others = states @ F.embedding(drawn, table).T
    others = others.masked_fill(targets.unsqueeze(1) == drawn, -torch.inf)
    return F.cross_entropy(torch.cat([own, others], dim=1), torch.zeros_like(targets))


@torch.no_grad()
def ndcg(model: SASRec, data: Histories, held: int, cut: int = 10) -> float:
    """NDCG@10 of the item held back (1: validation, 0: test) among all that were not seen yet."""
    model.eval()
    table = model.table()
    device = table.device
    gained: list[Tensor] = []
    for start in range(0, len(data.sequences), BATCH):
        part = data.sequences[start : start + BATCH]
        seen = [sequence[: -1 - held] for sequence in part]
        targets = torch.tensor([int(sequence[-1 - held]) for sequence in part], device=device)
        states = model(torch.from_numpy(last(seen, model.length)).to(device))[:, -1]
        scores = states @ table.T
        own = scores.gather(1, targets.unsqueeze(1))
        scores[:, 0] = -torch.inf
        user = np.repeat(np.arange(len(seen)), [len(sequence) for sequence in seen])
        scores[torch.from_numpy(user), torch.from_numpy(np.concatenate(seen))] = -torch.inf
        rank = (scores > own).sum(1)
        gained.append(torch.where(rank < cut, 1 / torch.log2(rank + 2.0), 0.0))
    return float(torch.cat(gained).mean())
