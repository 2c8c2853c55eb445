"""`Recommender`: one embedding joined to one backbone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cerp.models.backbones.base import Backbone, BatchOutput, TorchScorer
from cerp.models.batch import Batch
from cerp.models.embeddings.base import Embedding


class Recommender(nn.Module):
    """Scores users and items; knows neither how it is trained nor how it is judged."""

    def __init__(self, embedding: Embedding, backbone: Backbone) -> None:
        super().__init__()
        self.embedding, self.backbone = embedding, backbone

    def forward(self, batch: Batch) -> BatchOutput:
        """Scores of a training batch, the positive in column 0."""
        items = torch.cat([batch.positives[:, None], batch.negatives], dim=1)
        output: BatchOutput = self.backbone(self.embedding, batch.users, items)
        return output

    def scorer(self) -> TorchScorer:
        """The model as it is now, ready to rank the catalogue for any user."""
        return self.backbone.scorer(self.embedding)

    @property
    def can_be_captured(self) -> bool:
        """Whether a training step on this device can be recorded as a CUDA graph."""
        return self.device.type == "cuda" and self.backbone.capturable and self.embedding.capturable

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        first: Tensor = next(self.parameters())
        return first.device
