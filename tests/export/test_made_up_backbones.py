"""A backbone that nobody but this test knows is trained, written, read and served like any."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cerp
from cerp import artifact
from cerp.config import Config, PruneConfig, RunOptions, TrainConfig
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError
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


def fitted(backbone: str) -> FittedModel:
    config = Config(
        backbone=backbone,
        budgets=("60%",),
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
