"""The rows of the page's tables, and what their figures are looked up by."""

from __future__ import annotations

from typing import Any

BUDGETS, BACKBONES = (90, 95, 99), ("lightgcn", "mlp")
GOWALLA = {"dataset": "gowalla"}
CERP: dict[str, dict[str, Any]] = {
    "CERP": {"method": "cerp", "preset": "default", "ordering": "spectral"},
    "CERP, learned rows": {"method": "cerp-learned", "preset": "default"},
    "CERP, shuffled ids": {"method": "cerp", "preset": "default", "ordering": "shuffled"},
    "paper preset, native ids": {"method": "cerp", "preset": "paper", "ordering": "native"},
    "paper preset, shuffled ids": {"method": "cerp", "preset": "paper", "ordering": "shuffled"},
    "paper preset, spectral ids": {"method": "cerp", "preset": "paper", "ordering": "spectral"},
}
"""The rows of CERP, by the names that the page gives them."""
OTHERS: dict[str, dict[str, Any]] = {
    "UD": {"method": "ud"},
    "QR, shuffled ids": {"method": "qr", "ordering": "shuffled"},
    "QR, spectral ids": {"method": "qr", "ordering": "spectral"},
    "PEP": {"method": "pep"},
    "random hash": {"method": "hash"},
    "magnitude": {"method": "magnitude"},
    "magnitude, best table": {"method": "magnitude-best"},
    "magnitude, gradual": {"method": "magnitude-gradual"},
    "DHE, codes counted": {"method": "dhe", "accounting": "paper"},
    "DHE, weights counted": {"method": "dhe", "accounting": "honest"},
    "AutoEmb": {"method": "autoemb"},
    "ESAPN": {"method": "esapn"},
    "OptEmbed": {"method": "optembed"},
    "low rank": {"method": "lowrank"},
    "PCA of the full table": {"method": "pca"},
    "graph features": {"method": "features"},
    "GraphHash": {"method": "graphhash"},
    "CCE": {"method": "cce"},
    "LEGCF": {"method": "legcf"},
}
"""The rows of other methods with vectors, by the names that the page gives them."""
WITHOUT_VECTORS: dict[str, dict[str, Any]] = {
    "graph filter": {"method": "filter"},
    "item neighbours": {"method": "neighbours", "sparsity": 99},
    "scaled SVD": {"method": "svd", "sparsity": 99},
    "EASE, all weights": {"method": "ease"},
}
"""Those that train no vectors: one row for all backbones."""

AT_EQUAL_BYTES: dict[str, dict[str, Any]] = {
    "PQ of the full table": {"method": "pq"},
    "OPQ of the full table": {"method": "opq"},
    "residual quantisation of the full table": {"method": "rq"},
    "implicit ALS": {"method": "als"},
}
"""Those that only a limit in bytes can be held against."""


def shown_name(method: str) -> str:
    """What the page calls a method: what its rows have in common, where it has several."""
    named = {**CERP, **OTHERS, **WITHOUT_VECTORS, "full size": {"method": "full"}}
    names = [name for name, own in named.items() if own["method"] == method]
    if len(names) > 1:
        return names[0].split(",")[0]
    return names[0] if names else method


def cerp_at(name: str, backbone: str, percent: int) -> dict[str, Any]:
    """What a row of CERP on Gowalla is looked up by."""
    return {**CERP[name], **GOWALLA, "backbone": backbone, "sparsity": percent}
