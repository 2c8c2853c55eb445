"""Training of a click model, and what is measured: AUC and log loss."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import nn

from cerp.nn import Pruner
from examples.ctr.clicks import Clicks, Labels, Rows

BATCH = 1024
DECAY = 0.1
LATER = 16_384
"""Rows that are predicted at a time."""


def train(
    model: nn.Module,
    clicks: Clicks,
    epochs: int,
    rate: float,
    *,
    seed: int = 0,
    pruner: Pruner | None = None,
) -> float:
    """Minimise log loss; keep the epoch of the best AUC on validation, and give it back.

    The model as it comes counts as an epoch. While a pruner prunes no epoch is chosen, since each
    has another size.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=DECAY)
    steps = -(-len(clicks.train) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=epochs * steps + 1, pct_start=0.1
    )
    device = next(model.parameters()).device
    ids = torch.from_numpy(clicks.train.ids).to(device)
    labels = torch.from_numpy(clicks.train.labels).to(device)
    rng = np.random.default_rng(seed)
    best, kept = auc(clicks.validation.labels, predict(model, clicks.validation)), None
    if pruner is None:
        kept = copy.deepcopy(model.state_dict())
    for _ in range(epochs):
        order = torch.from_numpy(rng.permutation(len(ids))).to(device)
        for batch in order.tensor_split(steps):
            optimizer.zero_grad()
            F.binary_cross_entropy_with_logits(model(ids[batch]), labels[batch]).backward()
            optimizer.step()
            schedule.step()
            if pruner is not None:
                pruner.step()
        found = auc(clicks.validation.labels, predict(model, clicks.validation))
        if pruner is None and found > best:
            best, kept = found, copy.deepcopy(model.state_dict())
    if kept is not None:
        model.load_state_dict(kept)
    return best


def taught_by(model: nn.Module, clicks: Clicks) -> Clicks:
    """The same, with a model's probabilities in the place of the labels that it was trained on.

    Who learns from them learns what the model knows, and not the chance in single clicks.
    """
    chances = torch.from_numpy(predict(model, clicks.train)).sigmoid().numpy()
    return replace(clicks, train=Rows(clicks.train.ids, chances))


@torch.no_grad()
def predict(model: nn.Module, rows: Rows) -> npt.NDArray[np.float32]:
    """Logits of rows."""
    parts = torch.from_numpy(rows.ids).split(LATER)
    device = next(model.parameters()).device
    return torch.cat([model(part.to(device)) for part in parts]).cpu().numpy()


def auc(labels: Labels, scores: npt.NDArray[np.float32]) -> float:
    """The share of pairs, one clicked and one not, in which the clicked has the higher score."""
    from scipy.stats import rankdata

    clicked = labels > 0
    positive, negative = int(clicked.sum()), int((~clicked).sum())
    above = rankdata(scores)[clicked].sum() - positive * (positive + 1) / 2
    return float(above / (positive * negative))


def log_loss(labels: Labels, scores: npt.NDArray[np.float32]) -> float:
    """``-mean(y·ln p + (1 - y)·ln(1 - p))``"""
    return float(
        F.binary_cross_entropy_with_logits(torch.from_numpy(scores), torch.from_numpy(labels))
    )
