"""A click model at full size, with CERP, and with its rivals, at budgets over all fields.

    python -m examples.ctr.compare frappe deepfm -o results/ctr.json
    python -m examples.ctr.compare criteo-shaped deepfm --largest 10131227 --device cuda -o ...

CERP: a full-size model is trained; its tables become an `EmbeddingCollection` at the budget, in
the same network, which is trained a little more: on the clicks, or on what the full-size model
makes of them, whichever is better on validation. Rivals are trained from first values. Learning
rates and epochs are chosen on validation; the test part is read at the end. Values are those of
the embedding; bytes are in float32 with codes and masks, and as said for integers.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from cerp.budget import Budget
from cerp.errors import BudgetError
from cerp.nn import EmbeddingCollection, Pruner
from examples.ctr import tables
from examples.ctr.clicks import Clicks, criteo_shaped, frappe, movielens
from examples.ctr.networks import DCNv2, DeepFM
from examples.ctr.training import BATCH, auc, log_loss, predict, taught_by, train
from examples.measured import add_rows

DIM = 16
BUDGETS = ("90%", "95%", "99%", "99.9%")
RATES = (3e-3, 1e-2)
RATE_OF_CLICKS, RATE_OF_TEACHER = 5e-4, 2e-3
"""For CERP, which begins with a trained model: it overfits single clicks at once, and its
teacher's probabilities far less. Chosen on validation (MovieLens-100K and Frappe, 99%)."""
EPOCHS = {"frappe": 10, "ml-100k": 8, "criteo-shaped": 3}
SAME = ("data", "largest", "network", "seed")
"""What the rows of a comparison have in common."""
RIVALS = ("ud", "hash", "qr", "pep")
NETWORKS: Mapping[str, Callable[..., Any]] = {"deepfm": DeepFM, "dcn-v2": DCNv2}


class Comparison:
    """One data set and one network; figures are collected in `rows`."""

    def __init__(
        self,
        clicks: Clicks,
        network: str,
        epochs: int,
        rates: Sequence[float],
        *,
        device: str = "cpu",
        seed: int = 0,
    ) -> None:
        self.clicks, self.network = clicks, network
        self.epochs, self.rates = epochs, rates
        self.device, self.seed = device, seed
        self.steps = epochs * -(-len(clicks.train) // BATCH)
        self.rows: list[dict[str, Any]] = []

    def full(self) -> Any:
        """The model at full size."""
        model = self._trained(lambda: tables.full(self.clicks.fields, DIM), "full", None)
        for bits in (8, 4, 2):
            rounded = copy.deepcopy(model)
            rounded.embedding, size = tables.rounded(model.embedding, bits)
            self._note(f"int{bits}", None, rounded.to(self.device), size)
        return model

    def cerp(self, model: Any, budget: str) -> None:
        """The trained tables under a budget, in the trained network, and some more epochs."""
        compact = copy.deepcopy(model)
        compact.embedding = EmbeddingCollection(
            self.clicks.fields,
            DIM,
            budget=budget,
            tables=model.embedding.by_field(),
            counts=self.clicks.counts(),
            seed=self.seed,
        ).to(self.device)
        lessons = (self.clicks, RATE_OF_CLICKS), (taught_by(model, self.clicks), RATE_OF_TEACHER)
        tried = []
        for clicks, rate in lessons:
            later = copy.deepcopy(compact)
            epochs = max(self.epochs // 2, 1)
            tried.append((train(later, clicks, epochs, rate, seed=self.seed), later))
        chosen = max(tried, key=lambda one: one[0])[1]
        found = chosen.embedding
        codes = sum(field.ids * field.code_bits for field in found.report())
        self._note("cerp", budget, chosen, 4 * found.nnz + math.ceil(codes / 8))

    def rivals(self, budget: str, names: Sequence[str] = RIVALS) -> None:
        """UD, hash, QR and PEP, where the budget has room for them."""
        fields = self.clicks.fields
        limit = Budget.parse(budget).limit(sum(fields.values()), DIM)
        makers = {
            "ud": tables.uniform,
            "hash": tables.hashed,
            "qr": tables.quotient_remainder,
        }
        for name, maker in makers.items():
            if name not in names:
                continue
            try:
                maker(fields, DIM, limit)
            except BudgetError:
                self.rows.append(self._row(name, budget) | {"impossible": True})
                continue
            self._trained(partial(maker, fields, DIM, limit), name, budget)
        if "pep" in names:
            self._trained(lambda: tables.prunable(fields, DIM), "pep", budget, limit)

    def _trained(
        self,
        table: Callable[[], tables.OneTable],
        name: str,
        budget: str | None,
        prune_to: int | None = None,
    ) -> Any:
        tried = []
        for rate in self.rates:
            torch.manual_seed(self.seed)
            embedding = table()
            made = NETWORKS[self.network](embedding, len(self.clicks.fields), embedding.width)
            model = made.to(self.device)
            if prune_to is not None:
                pruner = Pruner([embedding.table], prune_to, self.steps, dense_share=0.3)
                train(model, self.clicks, self.epochs, rate, seed=self.seed, pruner=pruner)
                pruner.finish()
            tried.append((train(model, self.clicks, self.epochs, rate, seed=self.seed), model))
        chosen = max(tried, key=lambda one: one[0])[1]
        self._note(name, budget, chosen, chosen.embedding.float_bytes)
        return chosen

    def _row(self, name: str, budget: str | None) -> dict[str, Any]:
        return {
            "data": self.clicks.name,
            "largest": max(self.clicks.fields.values()),
            "network": self.network,
            "seed": self.seed,
            "method": name,
            "budget": budget,
        }

    def _note(self, name: str, budget: str | None, model: Any, size: int) -> None:
        figures: dict[str, Any] = {"values": model.embedding.nnz, "bytes": size}
        for part in ("validation", "test"):
            rows = getattr(self.clicks, part)
            scores = predict(model, rows)
            figures[part] = {
                "auc": round(auc(rows.labels, scores), 5),
                "log_loss": round(log_loss(rows.labels, scores), 5),
            }
        self.rows.append(self._row(name, budget) | figures)
        print(json.dumps(self.rows[-1]), flush=True)


def compare(
    clicks: Clicks,
    network: str,
    budgets: Sequence[str] = BUDGETS,
    *,
    epochs: int | None = None,
    rates: Sequence[float] = RATES,
    rivals: Sequence[str] = RIVALS,
    device: str = "cpu",
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Figures of all methods."""
    epochs = epochs or EPOCHS[clicks.name]
    found = Comparison(clicks, network, epochs, rates, device=device, seed=seed)
    model = found.full()
    for budget in budgets:
        found.cerp(model, budget)
        found.rivals(budget, rivals)
    return found.rows


def main() -> None:
    """Measure, and put the figures beside those that the file has."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", choices=list(EPOCHS))
    parser.add_argument("network", choices=list(NETWORKS))
    parser.add_argument("--largest", type=int, default=20_000, help="ids of the largest field")
    parser.add_argument("--rows", type=int, default=200_000, help="of the made-up set")
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    parser.add_argument("--budgets", nargs="+", default=BUDGETS)
    parser.add_argument("--rivals", nargs="*", choices=RIVALS, default=RIVALS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0, help="of first values and batches")
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    folder = Path(os.environ.get("CERP_DATA_DIR", "."))
    if given.data == "criteo-shaped":
        clicks = criteo_shaped(given.largest, given.rows)
    else:
        clicks = {"frappe": frappe, "ml-100k": movielens}[given.data](folder / given.data)
    rows = compare(
        clicks,
        given.network,
        given.budgets,
        rates=given.rates,
        rivals=given.rivals,
        device=given.device,
        seed=given.seed,
    )
    add_rows(given.output, rows, "examples.ctr.compare", SAME)


if __name__ == "__main__":
    main()
