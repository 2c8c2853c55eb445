"""Do learned thresholds choose better than magnitude? Writes results/thresholds.json.

    python benchmarks/thresholds.py

The embedded data, LightGCN, d = 64, one seed. The same codebooks are pruned
twice: by scheduled thresholds, and by the size of their entries after plain
training for as many epochs; then both are retrained alike. Reported are both
models' accuracy, their difference with its paired-bootstrap interval, and how
far the two masks agree (Jaccard).
"""

from __future__ import annotations

from dataclasses import asdict, replace

from machine import RESULTS, machine, write_figures

import cerp
from cerp.config import Config, PruneConfig, RunOptions
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.pruning.functional import jaccard
from cerp.runs.fit import fit_all
from cerp.runs.fitted_model import FittedModel

CONFIG = Config(dim=64, budgets=("90%", "95%", "97%"))


def agreement(first: FittedModel, second: FittedModel) -> float:
    """Jaccard of the two masks."""
    made = (model.recommender for model in (first, second))
    embeddings = [one.embedding for one in made if one is not None]
    masks = [entry.mask for entry in embeddings if isinstance(entry, CompositionalEmbedding)]
    assert masks[0] is not None
    assert masks[1] is not None
    return jaccard(masks[0], masks[1])


def main() -> None:
    """Train, compare, print and write the figures."""
    splits = cerp.load_splits("synthetic")
    quiet = RunOptions(quiet=True)
    learned = fit_all(splits, CONFIG, quiet)
    plain = fit_all(splits, replace(CONFIG, prune=PruneConfig(mode="magnitude")), quiet)
    rows = []
    for first, second in zip(learned, plain, strict=True):
        difference = cerp.paired_bootstrap(first.judged["test"], second.judged["test"])
        row = {
            "budget": first.budget,
            "learned_ndcg10": first.metrics["test"]["ndcg@10"],
            "magnitude_ndcg10": second.metrics["test"]["ndcg@10"],
            "difference": asdict(difference),
            "mask_jaccard": agreement(first, second),
        }
        rows.append(row)
        print(
            f"{first.budget}: learned {row['learned_ndcg10']:.4f}, "
            f"magnitude {row['magnitude_ndcg10']:.4f}, masks agree {row['mask_jaccard']:.0%}"
        )
    figures = {
        "config": CONFIG.to_dict(),
        "fingerprint": splits.fingerprint,
        "rows": rows,
        "machine": machine("torch"),
    }
    write_figures(RESULTS / "thresholds.json", figures)


if __name__ == "__main__":
    main()
