"""A backbone that nobody but this test knows is trained, written, read and served like any."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import cerp
from cerp import artifact
from cerp.config import Config, PruneConfig, RunOptions, TrainConfig
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import BudgetError, ConfigError
from cerp.models import BACKBONES, backbones
from cerp.models.backbones import MLP, LightGCN, MatrixFactorization
from cerp.runs.fit import fit_all
from cerp.runs.fitted_model import FittedModel
from cerp.server.card import model_card


class Pairs(MatrixFactorization):
    """Ends in a dot product."""


class Deep(MLP):
    """Ends in a tower."""


class Walk(LightGCN):
    """Ends in a dot product after propagation."""


class Sealed(MatrixFactorization):
    """Ends in something that no file can hold."""

    head = None  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BACKBONES, "_parts", dict(BACKBONES._parts))
    for made_up in (Pairs, Deep, Walk, Sealed):
        backbones.register(made_up.__name__.lower())(made_up)


def splits() -> Splits:
    return synthetic(60, 40, 700).split(seed=0)


def fitted(backbone: str, budget: str = "60%", max_file_size: str | None = None) -> FittedModel:
    config = Config(
        backbone=backbone,
        budgets=(budget,),
        max_file_size=max_file_size,
        dim=16,
        ordering="degree",
        prune=PruneConfig(epochs=1, batch_size=256),
        train=TrainConfig(epochs=1, evaluate_every=1, batch_size=256, learning_rate=1e-2),
    )
    return fit_all(splits(), config, RunOptions(quiet=True))[0]


@pytest.mark.parametrize(
    ("backbone", "word"), [("pairs", "mf"), ("deep", "mlp"), ("walk", "lightgcn")]
)
def test_it_is_shipped_and_ranks_as_in_training(backbone: str, word: str, tmp_path: Path):
    model = fitted(backbone)
    model.save(tmp_path / "model.cerp")
    runtime = cerp.load(tmp_path / "model.cerp")
    users = np.arange(len(runtime.users), dtype=np.int32)
    expected = model.recommender.scorer().score_all(users).numpy()
    np.testing.assert_allclose(runtime.score_all(users), expected, rtol=1e-4, atol=1e-6)
    expected[model.splits.train.user, model.splits.train.item] = -np.inf
    best = expected.max(axis=1)
    lists = runtime.recommend_many(runtime.users.values.tolist(), unseen_items=True)
    found = [places[0].score for places in lists]
    np.testing.assert_allclose(found, best, rtol=1e-4, atol=1e-6)
    # The header has the word for how to score, the facts the name of what was trained.
    assert artifact.scoring_word(runtime.model.head, runtime.model.layers) == word
    assert runtime.model.facts["backbone"] == backbone
    file = (tmp_path / "model.cerp").read_bytes()
    assert model_card(runtime, file, "model.cerp").backbone == backbone
    assert ("graph" in artifact.section_bytes(file)) == (word == "lightgcn")


def test_facts_do_not_repeat_the_word():
    file = artifact.decode(fitted("mf").file())
    assert "backbone" not in file.facts
    assert artifact.backbone_name(file) == "mf"


def test_a_backbone_that_scores_in_another_way_is_trained_but_not_shipped():
    model = fitted("sealed")
    assert "cannot hold the backbone 'sealed'" in (model.facts.why_no_file or "")
    with pytest.raises(ConfigError, match="neither a dot product nor a tower"):
        model.file()


class Biased(MatrixFactorization):
    """A bias for each item, which a file cannot hold."""

    head = None  # type: ignore[assignment]

    def __init__(self, train, *, embedding_dim, generator=None):
        super().__init__(train, embedding_dim=embedding_dim, generator=generator)
        self.bias = nn.Parameter(torch.zeros(train.num_items, 1))


def test_values_of_single_items_in_a_backbone_count_in_the_budget():
    backbones.register("biased")(Biased)
    model = fitted("biased")
    plain = fitted("pairs")
    assert model.limit == plain.limit == 640  # 40% of 100 entities times 16
    assert model.facts.nnz == 640 - 40
    assert model.facts.paper_count == model.limit


def test_a_budget_that_the_backbone_alone_exceeds_is_refused():
    backbones.register("biased")(Biased)
    with pytest.raises(BudgetError, match="the backbone alone has 40"):
        fitted("biased", budget="41")


@pytest.mark.parametrize("limit", [{"budget": "2KB"}, {"budget": "60%", "max_file_size": "20KB"}])
def test_bytes_of_a_file_that_cannot_be_are_refused_before_training(
    limit: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("cerp.runs.vector_pipeline.train", None)
    monkeypatch.setattr("cerp.methods.pruned.prune", None)
    with pytest.raises(ConfigError, match="'sealed', so that no limit in bytes can be met"):
        fitted("sealed", **limit)
