"""A recommender is one embedding joined to one backbone. A new backbone is a file and a line here.

Other packages add theirs by entry points in the group ``cerp.backbones``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cerp.registry import Registry

if TYPE_CHECKING:
    from cerp.models.backbones.base import Backbone

BACKBONES: Registry[type[Backbone]] = Registry(
    "backbone",
    "cerp.backbones",
    {
        "lightgcn": "cerp.models.backbones.lightgcn:LightGCN",
        "mf": "cerp.models.backbones.mf:MatrixFactorization",
        "mlp": "cerp.models.backbones.mlp:MLP",
    },
)
