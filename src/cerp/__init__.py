"""Recommenders under a hard memory budget, shipped as a tiny file that runs without PyTorch.

    import cerp

    data = cerp.read("ratings.csv")            # Interactions
    splits = data.split(seed=0)                # Splits: train, valid, test
    model = cerp.fit(splits, budget="99%")     # order ids, prune, retrain, select on valid
    model.metrics["test"]["ndcg@10"], model.recommend("user-42", k=10)

Names are imported on first use, so that ``import cerp`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cerp._version import __version__
from cerp.errors import MissingExtra

if TYPE_CHECKING:
    from cerp import nn as nn
    from cerp.callbacks import Callback
    from cerp.comparison.compare import compare
    from cerp.comparison.tune import tune
    from cerp.compression.compress import Compressed, compress
    from cerp.config import Config
    from cerp.data.datasets import load as load_splits
    from cerp.data.interactions import Interactions
    from cerp.data.readers import read
    from cerp.data.splits import Splits
    from cerp.errors import CerpError
    from cerp.evaluation.evaluate import evaluate
    from cerp.evaluation.id_leak import id_leak
    from cerp.evaluation.metrics import Metrics
    from cerp.evaluation.significance import paired_bootstrap
    from cerp.portfolio.fit_to_size import fit_to_size
    from cerp.reports.write import report
    from cerp.runs.fit import fit
    from cerp.runs.fitted_model import FittedModel
    from cerp.runtime import Runtime
    from cerp.runtime.field_lookups import FieldLookups
    from cerp.runtime.hub import save_to_hub
    from cerp.runtime.lookup import Lookup
    from cerp.runtime.opening import load

_HOMES = {
    "Callback": "cerp.callbacks",
    "CerpError": "cerp.errors",
    "Compressed": "cerp.compression.compress",
    "Config": "cerp.config",
    "FieldLookups": "cerp.runtime.field_lookups",
    "FittedModel": "cerp.runs.fitted_model",
    "Interactions": "cerp.data.interactions",
    "Lookup": "cerp.runtime.lookup",
    "Runtime": "cerp.runtime",
    "Metrics": "cerp.evaluation.metrics",
    "Splits": "cerp.data.splits",
    "compare": "cerp.comparison.compare",
    "compress": "cerp.compression.compress",
    "evaluate": "cerp.evaluation.evaluate",
    "fit": "cerp.runs.fit",
    "fit_to_size": "cerp.portfolio.fit_to_size",
    "id_leak": "cerp.evaluation.id_leak",
    "load": "cerp.runtime.opening",
    "load_splits": "cerp.data.datasets:load",
    "paired_bootstrap": "cerp.evaluation.significance",
    "read": "cerp.data.readers",
    "report": "cerp.reports.write",
    "save_to_hub": "cerp.runtime.hub",
    "tune": "cerp.comparison.tune",
}

__all__ = [
    "Callback",
    "CerpError",
    "Compressed",
    "Config",
    "FieldLookups",
    "FittedModel",
    "Interactions",
    "Lookup",
    "Metrics",
    "Runtime",
    "Splits",
    "__version__",
    "compare",
    "compress",
    "evaluate",
    "fit",
    "fit_to_size",
    "id_leak",
    "load",
    "load_splits",
    "paired_bootstrap",
    "read",
    "report",
    "save_to_hub",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name == "nn":  # a module: the import puts it here
        return _imported("cerp.nn", name)
    if name not in _HOMES:
        raise AttributeError(f"module 'cerp' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    value = getattr(_imported(module, name), attribute or name)
    globals()[name] = value
    return value


def _imported(module: str, name: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtra(f"cerp.{name}", "torch", "train") from None


def __dir__() -> list[str]:
    return __all__
