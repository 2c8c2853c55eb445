"""Two towers with in-batch softmax, at full size and with both tables under one budget.

    python -m examples.two_towers.towers -o results/two_towers.json

Users and items of MovieLens-100K; the last item of each user in time is for test, the one before
it for validation. NDCG@10 over all items that the user has not taken yet.
"""

from __future__ import annotations

import argparse
import copy
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.nn import EmbeddingCollection
from examples.measured import add_rows
from examples.sequences.histories import Histories, movielens

DIM = 32
BATCH = 1024
BUDGETS = ("90%", "95%", "99%")
TEMPERATURE = 0.1
SAME = ("data", "seed")
"""What the rows of a comparison have in common."""


class FullTables(nn.Module):
    """A vector for each user and each item."""

    def __init__(self, fields: dict[str, int]) -> None:
        super().__init__()
        self.tables = nn.ModuleDict(
            {name: nn.Embedding(size, DIM) for name, size in fields.items()}
        )
        for table in self.tables.values():
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, ids: dict[str, Tensor]) -> dict[str, Tensor]:
        """Vectors by the name of the field."""
        return {name: self.tables[name](values) for name, values in ids.items()}

    @property
    def nnz(self) -> int:
        """How many values are stored."""
        return sum(parameter.numel() for parameter in self.parameters())


class TwoTowers(nn.Module):
    """``score = ⟨f(e_user), g(e_item)⟩ / τ`` with f and g of one layer each, at length 1."""

    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        self.embedding: Any = embedding
        self.layers = nn.ModuleDict({"user": nn.Linear(DIM, DIM), "item": nn.Linear(DIM, DIM)})

    def forward(self, name: str, ids: Tensor) -> Tensor:
        """What a tower gives for ids."""
        vectors = self.embedding({name: ids})[name]
        return F.normalize(vectors + self.layers[name](vectors), dim=-1)


def train(model: TwoTowers, data: Histories, epochs: int, rate: float, *, seed: int = 0) -> float:
    """In-batch softmax less the log of how often an item occurs; the best epoch on validation."""
    torch.manual_seed(seed)
    training, device = data.training, next(model.parameters()).device
    users = torch.from_numpy(np.repeat(np.arange(len(training)), [len(one) for one in training]))
    users, items = users.to(device), torch.from_numpy(np.concatenate(training)).to(device)
    drawn = torch.from_numpy(data.counts() / len(items)).float().clamp_min(1e-9).log().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.1)
    best, kept = ndcg(model, data, held=1), copy.deepcopy(model.state_dict())
    for _ in range(epochs):
        for batch in torch.randperm(len(users)).split(BATCH):
            chosen = items[batch]
            scores = model("user", users[batch]) @ model("item", chosen).T / TEMPERATURE
            scores = scores - drawn[chosen]
            again = chosen.unsqueeze(1) == chosen
            again.fill_diagonal_(False)
            scores = scores.masked_fill(again, -torch.inf)
            optimizer.zero_grad()
            F.cross_entropy(scores, torch.arange(len(batch), device=device)).backward()
            optimizer.step()
        found = ndcg(model, data, held=1)
        if found > best:
            best, kept = found, copy.deepcopy(model.state_dict())
    model.load_state_dict(kept)
    return best


@torch.no_grad()
def ndcg(model: TwoTowers, data: Histories, held: int, cut: int = 10) -> float:
    """NDCG@10 of the item held back (1: validation, 0: test) among all that were not taken yet."""
    device = next(model.parameters()).device
    users = torch.arange(len(data.sequences), device=device)
    every = torch.arange(data.items + 1, device=device)
    scores = (model("user", users) @ model("item", every).T).cpu()
    targets = torch.tensor([int(sequence[-1 - held]) for sequence in data.sequences])
    own = scores.gather(1, targets.unsqueeze(1))
    scores[:, 0] = -torch.inf
    for row, sequence in zip(scores, data.sequences, strict=True):
        row[torch.from_numpy(sequence[: -1 - held])] = -torch.inf
    rank = (scores > own).sum(1)
    return float(torch.where(rank < cut, 1 / torch.log2(rank + 2.0), 0.0).mean())


def compare(
    data: Histories,
    budgets: Sequence[str] = BUDGETS,
    epochs: int = 25,
    *,
    device: str = "cpu",
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Figures at full size and at each budget."""
    fields = {"user": len(data.sequences), "item": data.items + 1}
    counts = {"user": np.array([len(one) for one in data.training]), "item": data.counts()}
    torch.manual_seed(seed)
    model = TwoTowers(FullTables(fields)).to(device)
    train(model, data, epochs, 1e-2, seed=seed)
    rows = [_row(data, None, model)]
    tables = {name: table.weight.detach() for name, table in model.embedding.tables.items()}
    for budget in budgets:
        compact = copy.deepcopy(model)
        compact.embedding = EmbeddingCollection(
            fields, DIM, budget=budget, tables=tables, counts=counts, seed=seed
        ).to(device)
        train(compact, data, max(epochs // 4, 1), 1e-3, seed=seed)
        rows.append(_row(data, budget, compact))
    return [{"seed": seed} | row for row in rows]


def _row(data: Histories, budget: str | None, model: TwoTowers) -> dict[str, Any]:
    return {
        "data": data.name,
        "method": "full" if budget is None else "cerp",
        "budget": budget,
        "values": model.embedding.nnz,
        "validation": {"ndcg@10": round(ndcg(model, data, held=1), 5)},
        "test": {"ndcg@10": round(ndcg(model, data, held=0), 5)},
    }


def main() -> None:
    """Measure on MovieLens-100K."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0, help="of first values and batches")
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    data = movielens(Path(os.environ.get("CERP_DATA_DIR", ".")) / "ml-100k")
    rows = compare(data, device=given.device, seed=given.seed)
    for row in rows:
        print(row)
    add_rows(given.output, rows, "examples.two_towers.towers", SAME)


if __name__ == "__main__":
    main()
