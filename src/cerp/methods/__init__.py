"""The compression methods, by name. A new one is one file and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cerp.errors import ConfigError
from cerp.methods.autoemb.method import AutoEmb
from cerp.methods.base import Context, Method, Search
from cerp.methods.esapn.method import Esapn
from cerp.methods.optembed.method import OptEmbed
from cerp.methods.plain import Dhe, Full, Hash, Qr, Ud
from cerp.methods.pruned import Cerp, Magnitude, Pep
from cerp.registry import Registry
from cerp.training.distributed import world_size
from cerp.training.search_result import Found

__all__ = ["METHODS", "Context", "Found", "Method", "Search", "method"]

METHODS: Registry[type[Method]] = Registry("method", "cerp.methods")
METHODS.add("autoemb", AutoEmb)
METHODS.add("cerp", Cerp)
METHODS.add("dhe", Dhe)
METHODS.add("esapn", Esapn)
METHODS.add("full", Full)
METHODS.add("hash", Hash)
METHODS.add("magnitude", Magnitude)
METHODS.add("optembed", OptEmbed)
METHODS.add("pep", Pep)
METHODS.add("qr", Qr)
METHODS.add("ud", Ud)


def method(name: str, options: Mapping[str, Any] | None = None) -> Method:
    """A method by name, with options of its own, such as ``{"operation": "add"}`` for qr."""
    found, known = METHODS[name], METHODS[name].option_names()
    for option in options or {}:
        if option not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise ConfigError(f"method {name!r} has no option {option!r}; its options: {listed}")
    if world_size() > 1 and not found.is_parallel:
        raise ConfigError(
            f"method {name!r} cannot share its batches among processes; start it without torchrun"
        )
    return found(**(options or {}))
