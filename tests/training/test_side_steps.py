"""Steps of another kind between those of the loop, and batches for them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cerp.config import Config, RunOptions, TrainConfig
from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.methods.base import Context
from cerp.methods.searching import ValidationBatches
from cerp.models import backbones
from cerp.models.backbones.base import BatchOutput
from cerp.models.batch import Batch
from cerp.models.embeddings.full import FullEmbedding
from cerp.models.recommender import Recommender
from cerp.runs.fit import fit_all
from cerp.training.loop import Loop, SideStep, StageHooks
from cerp.training.sampling import Sampler

IDS = {"users": Ids.range(3), "items": Ids.range(6)}
TRAIN = Interactions.from_codes([0, 0, 1, 2], [0, 1, 2, 3], **IDS)
SPLITS = Splits(
    TRAIN,
    Interactions.from_codes([0, 1, 2], [2, 3, 4], **IDS),
    Interactions.from_codes([0, 1], [4, 5], **IDS),
)


class Pulled(StageHooks):
    """A number p that side steps pull halfway to 8: ``(p - 8)² / 4`` and SGD of rate 1."""

    def __init__(self, model: Recommender) -> None:
        self.number = nn.Parameter(torch.zeros(()))
        model.backbone.register_parameter("number", self.number)
        self.seen: list[tuple[str, float]] = []
        self.side_step = SideStep(self.loss, torch.optim.SGD([self.number], lr=1.0))

    def loss(self, step: int) -> torch.Tensor:
        self.seen.append((f"side {step}", self.number.item()))
        return (self.number - 8).square() / 4

    def after_step(self, step: int) -> bool:
        self.seen.append((f"after {step}", self.number.item()))
        return False


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_side_step_comes_before_every_step_which_leaves_its_parameters_alone(is_shared: bool):
    model = Recommender(FullEmbedding(9, 4), backbones.create("mf", TRAIN, embedding_dim=4))
    hooks = Pulled(model)
    # Where the loop's optimizer holds the number too, it would decay it.
    held = model.parameters() if is_shared else model.embedding.parameters()
    optimizer = torch.optim.Adam(held, lr=0.1, weight_decay=1.0)
    sampler = Sampler(TRAIN, batch_size=2)
    Loop(model, sampler, [optimizer], epochs=1, hooks=hooks, label="t", quiet=True).run()
    assert hooks.seen == [("side 0", 0), ("after 0", 4), ("side 1", 4), ("after 1", 6)]


def batches(splits: Splits) -> ValidationBatches:
    config = Config(train=TrainConfig(batch_size=2, negatives=50))
    return ValidationBatches(Context(splits, config, RunOptions(), ()), config.train)


def test_validation_batches_go_through_the_validation_part_over_and_over():
    drawn = [batches(SPLITS).at(step) for step in range(4)]
    pairs = [
        list(zip(batch.users.tolist(), batch.positives.tolist(), strict=True)) for batch in drawn
    ]
    expected = [(0, 2), (1, 3), (2, 4)]
    assert sorted(pairs[0] + pairs[1]) == sorted(pairs[2] + pairs[3]) == expected


def test_negatives_of_validation_batches_are_positives_of_neither_training_nor_validation():
    seen: dict[int, set[int]] = {}
    for step in range(2):
        batch = batches(SPLITS).at(step)
        for user, items in zip(batch.users.tolist(), batch.negatives.tolist(), strict=True):
            seen.setdefault(user, set()).update(items)
    # Of six items, and test items are not known to be positives.
    assert seen == {0: {3, 4, 5}, 1: {0, 1, 4, 5}, 2: {0, 1, 2, 5}}


def test_without_validation_data_the_batches_are_training_data():
    refit = SPLITS.refit("train+valid")
    drawn = [batches(refit).at(step) for step in range(4)]
    assert sum(len(batch.users) for batch in drawn) == 7


def test_in_a_refit_side_steps_see_other_batches_than_the_model(monkeypatch: pytest.MonkeyPatch):
    seen: list[Batch] = []
    forward = Recommender.forward

    def noting(self: Recommender, batch: Batch) -> BatchOutput:
        seen.append(batch)
        return forward(self, batch)

    monkeypatch.setattr(Recommender, "forward", noting)
    once = TrainConfig(epochs=1, batch_size=512)
    config = Config("autoemb", backbone="mf", budgets=("50%",), dim=16, refit="all", train=once)
    fit_all(synthetic(40, 20, 300).split(seed=0), config, RunOptions(quiet=True))
    # Trained and trained again: two steps of all data, each after its side step.
    _, _, side, own = seen
    assert len(side.users) == len(own.users) == 300
    assert not torch.equal(side.users, own.users)
