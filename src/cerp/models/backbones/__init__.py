"""What turns embedding vectors into scores: interchangeable siblings behind one interface."""

from cerp.models import BACKBONES
from cerp.models.backbones.base import (
    Backbone,
    BatchOutput,
    BatchVectors,
    TorchScorer,
    check,
    create,
    gathered,
    names,
    register,
)
from cerp.models.backbones.lightgcn import LightGCN
from cerp.models.backbones.mf import MatrixFactorization
from cerp.models.backbones.mlp import MLP

__all__ = [
    "BACKBONES",
    "MLP",
    "Backbone",
    "BatchOutput",
    "BatchVectors",
    "LightGCN",
    "MatrixFactorization",
    "TorchScorer",
    "check",
    "create",
    "gathered",
    "names",
    "register",
]
