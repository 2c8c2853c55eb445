"""Training whose batches are so small that a process of several often has no row of them."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from cerp.config import RunOptions, TrainConfig
from cerp.data.synthetic import synthetic
from cerp.models import backbones
from cerp.models.embeddings.full import FullEmbedding
from cerp.models.recommender import Recommender
from cerp.training import epoch_order
from cerp.training.stages import train


def trained(most_shuffled: int) -> dict[str, Tensor]:
    """Vectors and losses of two epochs of three weighted positives a batch, within a second pass.

    In as many processes as run; steps of Adam alone do not show whether gradients are too large.
    """
    splits = synthetic(12, 10, 60).split(seed=0)
    weight = np.arange(1, len(splits.train) + 1, dtype=np.float32)
    splits = replace(splits, train=replace(splits.train, weight=weight))
    generator = torch.Generator().manual_seed(0)
    embedding = FullEmbedding(splits.num_entities, 4, generator=generator)
    model = Recommender(embedding, backbones.create("mf", splits.train, embedding_dim=4))
    config = TrainConfig(batch_size=3, epoch_size=30, learning_rate=0.01)
    with patch.object(epoch_order, "MOST_SHUFFLED", most_shuffled):
        quiet = RunOptions(quiet=True)
        found = train(model, splits, config, seed=3, label="small", options=quiet, epochs=2)
    losses = torch.tensor([row["loss"] for row in found.history])
    return {"vectors": model.embedding.table().detach(), "losses": losses}
