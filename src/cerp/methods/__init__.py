"""Ways to keep an embedding within its budget, by name. A new one is a file and a line here.

Other packages add theirs by entry points in the group ``cerp.methods``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cerp.errors import ConfigError, MissingExtra
from cerp.registry import Registry

if TYPE_CHECKING:
    from cerp.methods.base import Method

METHODS: Registry[type[Method]] = Registry(
    "method",
    "cerp.methods",
    {
        "als": "cerp.methods.als.method:Als",
        "autoemb": "cerp.methods.autoemb.method:AutoEmb",
        "cce": "cerp.methods.cce.method:Cce",
        "cerp": "cerp.methods.cerp:Cerp",
        "dhe": "cerp.methods.dhe:Dhe",
        "ease": "cerp.methods.ease:Ease",
        "esapn": "cerp.methods.esapn.method:Esapn",
        "features": "cerp.methods.features:Features",
        "filter": "cerp.methods.filter:Filter",
        "full": "cerp.methods.full:Full",
        "graphhash": "cerp.methods.graphhash:GraphHash",
        "hash": "cerp.methods.hashed:Hash",
        "legcf": "cerp.methods.legcf.method:Legcf",
        "lowrank": "cerp.methods.lowrank:LowRank",
        "magnitude": "cerp.methods.magnitude:Magnitude",
        "neighbours": "cerp.methods.neighbours:Neighbours",
        "sharp-filter": "cerp.methods.filter:SharpFilter",
        "svd": "cerp.methods.svd.method:Svd",
        "optembed": "cerp.methods.optembed.method:OptEmbed",
        "opq": "cerp.methods.quantised:Opq",
        "pca": "cerp.methods.pca:Pca",
        "pep": "cerp.methods.pep:Pep",
        "pq": "cerp.methods.quantised:Pq",
        "qr": "cerp.methods.qr:Qr",
        "rq": "cerp.methods.quantised:Rq",
        "ud": "cerp.methods.ud:Ud",
    },
)


def method(name: str, options: Mapping[str, Any] | None = None) -> Method:
    """A method by name, with options of its own, such as ``{"operation": "add"}`` for qr."""
    found, given = METHODS[name], options or {}
    known = found.option_names()
    for option in given:
        if option not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise ConfigError(f"method {name!r} has no option {option!r}; its options: {listed}")
    if found.package is not None and not found.is_installed():
        raise MissingExtra(f"The method {name!r}", *found.package)
    found.refuse_processes(name)
    return found(**given)
