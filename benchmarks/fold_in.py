"""How good lists for new users are, beside those of users who were in training.

    CERP_DATA_DIR=... python benchmarks/fold_in.py

A tenth of the users is held out of training entirely. All users are split in the
same way: 80% of their items are known, 20% judge. Full-size models, d = 64, are
trained on what is known of the others; the new users get their vectors from
their known items by `cerp.runtime.folding`, and by three other ways:

- mean: ``Σ v_i / n``;
- ridge: ``(G + 10 YᵀY + λI)⁻¹ Σ v_i``, the user's step of implicit ALS, with G the
  Gram matrix of all items, Y the liked vectors and λ a hundredth of G's mean eigenvalue;
- propagation (LightGCN): ``n^(-1/2) Σ d_i^(-1/2) s_i`` with s the item's vectors summed over
  all layers but the last: what LightGCN would give a user without a vector of their own.

Also from 1, 3 and 10 of their items. NDCG@10 is relative to that of the trained
users. Writes results/fold_in.json; fails where fold-in stays below 80%.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Small models: a second thread would only wait. Read when NumPy and torch are loaded.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import numpy.typing as npt
from machine import RESULTS, machine, write_figures

from cerp.artifact import ComposedEmbedding, Index, Seen, ShippedModel, Table
from cerp.config import Config, RunOptions, TrainConfig
from cerp.data.ids import Ids, Int32Array
from cerp.data.interactions import Interactions
from cerp.data.merging import merge
from cerp.data.splits import Splits
from cerp.evaluation.evaluate import evaluate
from cerp.models.embeddings.full import FullEmbedding
from cerp.runs.fit import fit_all
from cerp.runtime import Runtime
from cerp.runtime.folding import FoldIn
from cerp.runtime.propagation import propagate
from cerp.runtime.vectors import vectors_of

FloatArray = npt.NDArray[np.floating[Any]]
ToVector = Callable[[Int32Array], FloatArray]

DATA_SETS, BACKBONES = ("lastfm", "ml-1m"), ("mf", "lightgcn")
HELD_OUT, DIMENSION, LAYERS, EPOCHS = 0.1, 64, 3, 18
LIKED = (1, 3, 10)
ALLOWED_SHARE = 0.8


class VectorScorer:
    """``score(u, i) = ⟨z_u, v_i⟩`` with z_u made of what the user likes."""

    def __init__(self, to_vector: ToVector, items: FloatArray, liked: Interactions) -> None:
        self.to_vector, self.items, self.liked = to_vector, items, liked

    def score_all(self, users: Int32Array) -> FloatArray:
        """Scores of every item, (len(users), num_items)."""
        offsets, item = self.liked.user_offsets, self.liked.item
        vectors = [self.to_vector(item[offsets[user] : offsets[user + 1]]) for user in users]
        scores: FloatArray = np.array(vectors) @ self.items.T
        return scores


def main() -> None:
    """Train, fold in, print and write the figures; fail when the bar is missed."""
    figures: dict[str, Any] = {
        "dimension": DIMENSION,
        "layers": LAYERS,
        "allowed_share": ALLOWED_SHARE,
        "machine": machine("numpy", "torch"),
        "runs": [run(name, backbone) for name in DATA_SETS for backbone in BACKBONES],
    }
    print(json.dumps(figures, indent=1))
    write_figures(RESULTS / "fold_in.json", figures)
    if any(found["share_of_trained"]["fold_in"] < ALLOWED_SHARE for found in figures["runs"]):
        raise SystemExit(f"fold-in stays below {ALLOWED_SHARE:.0%} of what trained users get")


def run(name: str, backbone: str) -> dict[str, Any]:
    """One data set with one backbone."""
    started = time.perf_counter()
    known, new = held_out(Splits.load(Path(os.environ["CERP_DATA_DIR"]) / name))
    config = Config(
        method="full",
        backbone=backbone,
        backbone_options={"layers": LAYERS} if backbone == "lightgcn" else {},
        dim=DIMENSION,
        refit="train+valid",
        train=TrainConfig(epochs=EPOCHS, evaluate_every=3, patience=2),
    )
    model = fit_all(known, config, RunOptions(quiet=True))[0]
    assert model.recommender is not None
    embedding = model.recommender.embedding
    assert isinstance(embedding, FullEmbedding)
    table = embedding.weight.detach().numpy()
    seen = Seen(model.splits.train.user_offsets, model.splits.train.item)
    runtime = Runtime(
        ShippedModel(
            facts={},
            users=known.users,
            items=known.items,
            head="dot",
            embedding=ComposedEmbedding((Table(Index("identity"), table),)),
            layers=LAYERS if backbone == "lightgcn" else 0,
            seen=seen,
        )
    )
    trained = evaluate(runtime, model.splits).mean["ndcg@10"]
    vectors = vectors_of(runtime.model)

    def share(to_vector: ToVector, liked: Interactions) -> float:
        scorer = VectorScorer(to_vector, vectors.items, liked)
        return round(evaluate(scorer, new).mean["ndcg@10"] / trained, 3)

    everyone = np.arange(known.num_users, dtype=np.int32)
    ways = {
        "fold_in": FoldIn.of_users(vectors.users, len(everyone), vectors.items).vector,
        "mean": lambda liked: vectors.items[liked].mean(axis=0),
        "ridge": ridge(vectors.items),
    }
    if backbone == "lightgcn":
        ways["propagation"] = propagation(table, seen)
    return {
        "data": name,
        "backbone": backbone,
        "trained_users": known.num_users,
        "new_users": new.num_users,
        "best_epoch": model.facts.best_epoch,
        "ndcg@10_of_trained_users": round(trained, 4),
        "share_of_trained": {way: share(make, new.train) for way, make in ways.items()},
        "share_from_few": {
            str(count): {way: share(make, first(new.train, count)) for way, make in ways.items()}
            for count in LIKED
        },
        "seconds": round(time.perf_counter() - started, 1),
    }


def held_out(splits: Splits) -> tuple[Splits, Splits]:
    """Known users, split for training; new users, with 80% known and 20% to judge."""
    data = merge(splits.train_and_valid, splits.test)
    is_new = np.random.default_rng(0).random(data.num_users) < HELD_OUT
    known, new = (
        Interactions.from_codes(
            (np.cumsum(chosen) - 1)[data.user[chosen[data.user]]],
            data.item[chosen[data.user]],
            users=Ids(data.users.values[chosen]),
            items=data.items,
        ).split(seed=0)
        for chosen in (~is_new, is_new)
    )
    return known, new.refit("train+valid")


def first(liked: Interactions, count: int) -> Interactions:
    """So many random items of each user."""
    drawn = np.lexsort((np.random.default_rng(1).random(len(liked)), liked.user))
    rank = np.empty(len(liked), dtype=np.int64)
    rank[drawn] = np.arange(len(liked)) - liked.user_offsets[liked.user[drawn]]
    return liked.subset(rank < count)


def ridge(items: FloatArray) -> ToVector:
    """The user's step of implicit ALS."""
    vectors = items.astype(np.float64)
    gram = vectors.T @ vectors
    gram += 0.01 * np.trace(gram) / len(gram) * np.eye(len(gram))

    def to_vector(liked: Int32Array) -> FloatArray:
        chosen = vectors[liked]
        return np.linalg.solve(gram + 10 * chosen.T @ chosen, chosen.sum(axis=0))

    return to_vector


def propagation(table: npt.NDArray[np.float32], seen: Seen) -> ToVector:
    """LightGCN's own: one more product with the adjacency, for a user without a vector."""
    num_users = len(seen.offsets) - 1
    summed = propagate(table, seen, LAYERS - 1)[num_users:]
    degree = np.bincount(seen.items, minlength=len(table) - num_users)
    scaled = summed / np.sqrt(np.maximum(degree, 1))[:, None]
    return lambda liked: scaled[liked].sum(axis=0) / len(liked) ** 0.5


if __name__ == "__main__":
    main()
