"""A model file that goes on training from where it is: its stored values, and no others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from cerp.artifact import ComposedEmbedding, ShippedModel, backbone_name
from cerp.config import RunOptions, TrainConfig
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.export.to_arrays import composed, load_composed
from cerp.models import BACKBONES, backbones
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.recommender import Recommender
from cerp.training.stages import train

LEARNING_RATE = 1e-3
"""A fifth of that of training: what is there is nearly right."""


def can_be_warm(model: ShippedModel) -> bool:
    """Whether its vectors are sums of coded rows, which can be trained as they are stored."""
    embedding = model.embedding
    return (
        isinstance(embedding, ComposedEmbedding)
        and embedding.combine == "sum"
        and len(embedding.tables) > 1
        and all(table.index.codes is not None for table in embedding.tables)
        and len({len(table.weight) for table in embedding.tables}) == 1
        and _name(model) in BACKBONES
    )


def _name(model: ShippedModel) -> str:
    """Of the backbone, whatever the filter adds to its scores."""
    return backbone_name(replace(model, filter=None))


def warmed(
    model: ShippedModel,
    data: Interactions,
    *,
    epochs: int,
    learning_rate: float = LEARNING_RATE,
    seed: int = 0,
    device: str = "cpu",
    quiet: bool = False,
) -> ShippedModel:
    """The model after some epochs on all that it knows; as many values are stored as before."""
    if not can_be_warm(model):
        raise ConfigError("this model has no sums of coded rows that could be trained further")
    embedding, recommender = _recommender(model, data)
    recommender.to(device)
    nothing = data.subset(np.zeros(len(data), dtype=bool))
    train(
        recommender,
        Splits(data, nothing, nothing),
        TrainConfig(
            epochs=epochs, optimizer="adamw", weight_decay=0.08, learning_rate=learning_rate
        ),
        seed=seed,
        label="update",
        options=RunOptions(device=device, quiet=quiet),
        epochs=epochs,
    )
    weights = {
        name: tensor.detach().cpu().float().numpy()
        for name, tensor in recommender.backbone.state_dict().items()
    }
    return replace(model, embedding=composed(embedding), weights=weights)


def _recommender(
    model: ShippedModel, data: Interactions
) -> tuple[CompositionalEmbedding, Recommender]:
    arrays = model.embedding
    assert isinstance(arrays, ComposedEmbedding)
    codes = np.stack(
        [table.index.codes for table in arrays.tables if table.index.codes is not None], axis=1
    )
    embedding = CompositionalEmbedding(
        len(codes), arrays.dim, buckets=len(arrays.tables[0].weight), codes=codes
    )
    if any(table.mask is not None for table in arrays.tables):
        masks = np.concatenate([table.stored for table in arrays.tables])
        embedding.restrict(torch.from_numpy(masks))
    load_composed(embedding, arrays)
    layers: dict[str, Any] = {"layers": model.layers} if model.layers else {}
    backbone = backbones.create(_name(model), data, embedding_dim=arrays.dim, **layers)
    weights = {name: torch.from_numpy(np.array(value)) for name, value in model.weights.items()}
    backbone.load_state_dict(weights)
    return embedding, Recommender(embedding, backbone)
