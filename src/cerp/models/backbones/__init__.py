"""What turns embedding vectors into scores: interchangeable siblings behind one interface."""

from cerp.models.backbones.base import (
    Backbone,
    BatchOutput,
    TorchScorer,
    check,
    create,
    names,
    register,
)
from cerp.models.backbones.lightgcn import LightGCN
from cerp.models.backbones.mf import MatrixFactorization
from cerp.models.backbones.mlp import MLP

__all__ = [
    "MLP",
    "Backbone",
    "BatchOutput",
    "LightGCN",
    "MatrixFactorization",
    "TorchScorer",
    "check",
    "create",
    "names",
    "register",
]
