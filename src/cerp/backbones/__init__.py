"""What turns embedding vectors into scores: interchangeable siblings behind one interface."""

from cerp.backbones.base import (
    Backbone,
    BatchOutput,
    TorchScorer,
    check,
    create,
    names,
    register,
)
from cerp.backbones.lightgcn import LightGCN
from cerp.backbones.mf import MatrixFactorization
from cerp.backbones.mlp import MLP

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
