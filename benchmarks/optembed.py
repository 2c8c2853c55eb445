"""Whether OptEmbed's row thresholds act; writes results/optembed.json.

    python benchmarks/optembed.py [--dataset synthetic] [--dim 128] [--epochs 15] [--device cpu]

Trains the supernet, nothing else, for pairs of the thresholds' learning rate and of the weight of
their penalty, the original's 1e-4 first. Of each: where the thresholds end, the share of rows that
can still move one, and the rows that are dropped. Beside it what the original's rule would have,
norms as they are: the share of rows whose norm is at most 1.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from machine import RESULTS, described, write_figures

from cerp.config import Config, PruneConfig, RunOptions
from cerp.data.datasets import load
from cerp.data.splits import Splits
from cerp.methods.base import Context
from cerp.methods.optembed.method import OptEmbed
from cerp.methods.optembed.supernet import Supernet
from cerp.models.recommender import Recommender
from cerp.training.search_result import Found

RATES = ((1e-4, 1e-4), (1e-1, 1e-2), (1e-1, 1e-1), (1.0, 1e-1), (1.0, 1.0))


class Trained(OptEmbed):
    """The supernet, looked at in the place of evolution."""

    def _found(self, context: Context, model: Recommender, limit: int) -> Found:
        supernet = model.embedding
        assert isinstance(supernet, Supernet)
        norms = supernet.weight.detach().abs().sum(dim=1)
        kept = supernet.kept_rows()
        facts = {
            "thresholds": supernet.row_thresholds.detach().tolist(),
            "active_share": supernet.active_share(),
            "dropped_users": int((~kept[: supernet.num_users]).sum()),
            "dropped_items": int((~kept[supernet.num_users :]).sum()),
            "norms_min_median_max": [float(norms.min()), float(norms.median()), float(norms.max())],
            "original_active_share": float((norms <= 1).float().mean()),
        }
        return Found({}, facts)


def trained(splits: Splits, given: argparse.Namespace, rate: float, penalty: float) -> Any:
    """The facts of one supernet."""
    config = Config(
        method="optembed",
        backbone=given.backbone,
        dim=given.dim,
        prune=PruneConfig(epochs=given.epochs),
    )
    limit = splits.num_entities * given.dim // 10
    context = Context(splits, config, RunOptions(device=given.device, quiet=True), (limit,))
    method = Trained(threshold_learning_rate=rate, threshold_penalty=penalty)
    return method.search(context).found[limit].facts


def main() -> None:
    """Train all, and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dataset", default="synthetic")
    parser.add_argument("--backbone", default="lightgcn")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "optembed.json")
    given = parser.parse_args()
    splits = load(given.dataset)
    rows = []
    for rate, penalty in RATES:
        facts = trained(splits, given, rate, penalty)
        rows.append({"threshold_learning_rate": rate, "threshold_penalty": penalty, **facts})
        print(rows[-1], flush=True)
    asked = {name: getattr(given, name) for name in ("dataset", "backbone", "dim", "epochs")}
    sizes = {"users": splits.num_users, "items": splits.num_items}
    write_figures(
        given.output, {"machine": described(given.device), **asked, **sizes, "rows": rows}
    )


if __name__ == "__main__":
    main()
