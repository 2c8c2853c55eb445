"""The paper's pruning at work: its clock, its penalty, and the variants of its table 3."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest
import torch

import cerp
from cerp.config import Config, PruneConfig, RunOptions
from cerp.data.splits import Splits
from cerp.models import backbones
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.recommender import Recommender
from cerp.paper.planning import plan
from cerp.paper.recipe import read_recipe
from cerp.presets import preset
from cerp.pruning.clocks import FreeClock
from cerp.pruning.functional import jaccard
from cerp.training.optimizers import threshold_adam
from cerp.training.search_result import Found
from cerp.training.stages import prune

DIM = 16


@cache
def splits() -> Splits:
    return cerp.load_splits("synthetic")


def pruned(config: PruneConfig, limit: int = 2) -> tuple[dict[int, Found], list[dict[str, float]]]:
    """What MF keeps for a limit, and the curves."""
    data = splits()
    generator = torch.Generator().manual_seed(0)
    count = data.num_entities
    embedding = CompositionalEmbedding(count, DIM, buckets=count // 14, generator=generator)
    backbone = backbones.create("mf", data.train, embedding_dim=DIM)
    model = Recommender(embedding, backbone)
    return prune(model, data, config, [limit], seed=0, options=RunOptions(quiet=True))


@pytest.mark.parametrize("backbone", ["mlp", "lightgcn"])
@pytest.mark.parametrize("batch_size", [1024, 8192])
def test_the_paper_prunes_its_first_entries_while_the_penalty_weighs(
    batch_size: int, backbone: str
):
    config = preset("paper", backbone).prune
    _, curves = pruned(replace(config, batch_size=batch_size, max_epochs=4))
    started = curves[-1]["pruning_started"]
    assert 1 <= started <= 3, "in the second or in the third epoch"
    # γ of the epoch in which it happened, counted from 0
    assert curves[int(started)]["gamma"] >= 0.1 * config.gamma > 0
    assert curves[0]["nnz"] > 0.999 * 2 * DIM * (splits().num_entities // 14)


def test_the_curves_have_the_penalty_of_all_entities():
    config = replace(preset("paper", "mf").prune, batch_size=8192, max_epochs=2)
    _, curves = pruned(config)
    assert [row["gamma"] for row in curves] == [1.0, 0.5]
    for row in curves:
        assert -DIM <= row["penalty"] < -0.5 * DIM, "minus a count of what is not zero"
        assert row["sparsity"] == 1 - row["nnz"] / (splits().num_entities * DIM)


def _short(config: Config) -> PruneConfig:
    return replace(config.prune, batch_size=4096, max_epochs=6)


# The planted case. Every entity has a row of P and a row of Q to itself, of 8 places. In the first
# four P has 0.5 and Q 0.06: at η = 100 tanh²(η e) is 1 there whatever Q is, so the penalty has
# nothing to say of Q. In the last four P has 0.03 and Q nothing: the penalty is all about P.
PLACES, ENTITIES = 8, 5
LARGE = [0.5] * 4 + [0.03] * 4
SMALL = [0.06] * 4 + [0.0] * 4


def planted(gamma: float) -> CompositionalEmbedding:
    """Thresholds rise over fixed weights until 8 values of each entity are left."""
    rows = np.arange(ENTITIES, dtype=np.int32)
    codes = np.stack([rows, rows], axis=1)
    embedding = CompositionalEmbedding(ENTITIES, PLACES, buckets=ENTITIES, codes=codes)
    embedding.weight.data.copy_(torch.tensor([LARGE] * ENTITIES + [SMALL] * ENTITIES))
    embedding.start_pruning(scale=-9.0)
    clock = FreeClock(start=-9.0, typical_weight=0.5, steps=400, weight_decay=1e-3)
    assert embedding.threshold is not None
    optimizer = threshold_adam(clock, embedding.threshold)
    while embedding.nnz > PLACES * ENTITIES:
        optimizer.zero_grad()
        loss = gamma * embedding.penalty(torch.arange(ENTITIES)) / ENTITIES
        loss.backward()
        optimizer.step()
    embedding.project(PLACES * ENTITIES)
    return embedding


def test_size_alone_lets_the_patterns_of_two_books_overlap():
    left = planted(gamma=0.0).diagnostics()
    assert (left.average_dimension, left.overlap) == (4.0, 0.5), "the largest 8 of 12 values"


def test_the_penalty_separates_the_patterns_of_two_books():
    left = planted(gamma=1.0).diagnostics()
    assert (left.average_dimension, left.overlap) == (8.0, 0.0), "one value at each of 8 places"


def test_the_variants_of_table_3_keep_different_entries():
    jobs = plan(read_recipe("table3"), "synthetic")
    configs = {
        one.run.variant: one.job.config
        for one in jobs
        if one.run.variant is not None and one.job.config is not None
        if one.run.preset == "paper" and one.job.backbone == "lightgcn"
        if one.run.variant is not None and one.job.config is not None
    }
    limit = splits().num_entities * DIM // 20
    masks = {
        name: pruned(_short(config), limit)[0][limit].tensors["mask"]
        for name, config in configs.items()
        if name != "imbalanced"
    }
    assert set(masks) == {"default", "no_penalty", "no_gamma_decay"}
    for first, second in combinations(masks, 2):
        assert jaccard(masks[first], masks[second]) < 0.9, (first, second)
    assert configs["imbalanced"].hashing != configs["default"].hashing
