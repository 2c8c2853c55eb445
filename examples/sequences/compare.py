"""SASRec at full size, and with its item table under budgets.

    python -m examples.sequences.compare video-games -o results/sequences.json

Two ways: rows learned from the trained table, which then trains on in its network (`cerp`), and
rows learned from the sequences alone, pruned while a new model trains (`cerp from sequences`),
for those who cannot train a full table first. Epochs are chosen on validation.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cerp.assignment.code_rule import book_rows
from cerp.budget import Budget
from cerp.nn import CompositionalEmbedding, EmbeddingCollection, Pruner, table_codes
from examples.measured import add_rows
from examples.sequences.histories import Histories, movielens, video_games
from examples.sequences.sasrec import BATCH, SASRec, ndcg, train

DIM = 48
BUDGETS = ("90%", "95%", "99%")
LENGTHS = {"video-games": 15, "ml-100k": 40}
EPOCHS = {"video-games": 8, "ml-100k": 40}
READERS = {"video-games": video_games, "ml-100k": movielens}
RATE, LATER_RATE = 3e-3, 1e-3
BOOKS = 4
SAME = ("data", "seed")
"""What the rows of a comparison have in common."""


class OneField(nn.Module):
    """A collection of one field, for ids that have no column of fields."""

    def __init__(self, collection: EmbeddingCollection) -> None:
        super().__init__()
        self.collection: Any = collection

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids of any shape."""
        vectors: Tensor = self.collection(ids.unsqueeze(-1)).squeeze(-2)
        return vectors


def full_table(items: Any) -> Tensor:
    """The rows of an ``nn.Embedding``."""
    weight: Tensor = items.weight
    return weight


def shared_table(items: Any) -> Tensor:
    """The vectors of the one field of a collection."""
    vectors: Tensor = items.collection.shared.table()
    return vectors


def own_table(items: Any) -> Tensor:
    """The vectors of a compositional embedding."""
    vectors: Tensor = items.table()
    return vectors


def compare(
    data: Histories,
    budgets: Sequence[str] = BUDGETS,
    *,
    length: int | None = None,
    epochs: int | None = None,
    from_sequences: Sequence[str] = ("99%",),
    device: str = "cpu",
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Figures of the full table, and of both ways at each budget."""
    length, epochs = length or LENGTHS[data.name], epochs or EPOCHS[data.name]
    torch.manual_seed(seed)
    items = nn.Embedding(data.items + 1, DIM)
    nn.init.normal_(items.weight, std=0.05)
    model = SASRec(items, full_table, DIM, length).to(device)
    train(model, data, epochs, RATE, seed=seed)
    rows = [_row(data, "full", None, model, items.weight.numel(), 0)]
    for budget in budgets:
        later = _from_table(model, data, budget, seed).to(device)
        train(later, data, max(epochs // 4, 1), LATER_RATE, seed=seed)
        found = later.items.collection
        rows.append(_row(data, "cerp", budget, later, found.nnz, found.report()[0].code_bits))
    rows += [_from_sequences(data, each, length, epochs, device, seed) for each in from_sequences]
    return [{"seed": seed} | row for row in rows]


def _from_table(model: SASRec, data: Histories, budget: str, seed: int) -> SASRec:
    """The trained network around a compact table with rows learned from the trained one."""
    collection = EmbeddingCollection(
        {"item": data.items + 1},
        DIM,
        budget=budget,
        tables={"item": model.items.weight.detach()},
        counts={"item": data.counts()},
        seed=seed,
    )
    later = copy.deepcopy(model)
    later.items, later._table = OneField(collection), shared_table
    return later


def _from_sequences(
    data: Histories, budget: str, length: int, epochs: int, device: str, seed: int
) -> dict[str, Any]:
    """A new model whose items share rows by the sequences, pruned to the budget, trained again."""
    count = data.items + 1
    limit = Budget.parse(budget).limit(count, DIM)
    rows = book_rows(limit, count, DIM, BOOKS)
    codes = table_codes(count, sequences=data.training, books=BOOKS, rows=rows, padding_idx=0)
    torch.manual_seed(seed)
    items = CompositionalEmbedding(count, DIM, 0, codes=codes.codes, buckets=rows)
    model = SASRec(items, own_table, DIM, length).to(device)
    pruned = max(epochs // 2, 1)
    steps = pruned * -(-len(data.sequences) // BATCH)
    pruner = Pruner([items], limit, steps, dense_share=0.3)
    train(model, data, pruned, RATE, seed=seed, pruner=pruner)
    pruner.finish()
    train(model, data, epochs - pruned or 1, RATE, seed=seed)
    bits = BOOKS * (rows - 1).bit_length()
    return _row(data, "cerp from sequences", budget, model, items.nnz, bits)


def _row(
    data: Histories, method: str, budget: str | None, model: SASRec, values: int, bits: int
) -> dict[str, Any]:
    found = {
        "data": data.name,
        "method": method,
        "budget": budget,
        "values": values,
        "bytes": 4 * values + (data.items + 1) * bits // 8,
        "validation": {"ndcg@10": round(ndcg(model, data, held=1), 5)},
        "test": {"ndcg@10": round(ndcg(model, data, held=0), 5)},
    }
    print(json.dumps(found), flush=True)
    return found


def main() -> None:
    """Measure, and put the figures beside those that the file has."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", choices=list(READERS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0, help="of first values and batches")
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    folder = Path(os.environ.get("CERP_DATA_DIR", ".")) / given.data
    rows = compare(READERS[given.data](folder), device=given.device, seed=given.seed)
    add_rows(given.output, rows, "examples.sequences.compare", SAME)


if __name__ == "__main__":
    main()
