"""The first stage of a run: what to train for each budget, and who goes through the others."""

from __future__ import annotations

from collections.abc import Callable

from cerp import methods
from cerp.assignment.hashing import Hash
from cerp.assignment.ordering import order
from cerp.config import Config, RunOptions
from cerp.data.ids import Float32Array
from cerp.data.splits import Splits
from cerp.errors import ConfigError, DataError
from cerp.evaluation.metrics import cutoff_of
from cerp.methods import METHODS
from cerp.methods.base import Context, Method
from cerp.methods.item_method import ItemMethod
from cerp.models import BACKBONES, backbones
from cerp.runs.filter_pipeline import FilterPipeline, filter_candidate
from cerp.runs.item_pipeline import ItemPipeline, item_candidate
from cerp.runs.pipeline import Pipeline
from cerp.runs.products import Plan
from cerp.runs.vector_pipeline import VectorPipeline
from cerp.sizing.precision_plan import FULL, NONE, Candidate, precision_plan
from cerp.training.losses import LOSSES
from cerp.training.penalties import PENALTIES


def make_plan(splits: Splits, config: Config, options: RunOptions) -> Plan:
    """What to train for each budget; what cannot be is refused here, before anything is written."""
    method = methods.method(config.method, config.method_options)
    refuse_unselectable(splits, config.selection_metric)
    if method.only_backbone not in (None, config.backbone):
        raise ConfigError(
            f"the method {config.method!r} goes with the backbone {method.only_backbone!r} alone; "
            f"leave out backbone={config.backbone}"
        )
    if config.assignment == "learned" and not method.learns_rows:
        raise ConfigError(
            f"the method {config.method!r} has no codebooks whose rows could be learned; leave out "
            "assignment=learned, or choose method=cerp"
        )
    if config.teacher is not None and config.assignment != "learned":
        raise ConfigError(
            f"the teacher {config.teacher!r} has codes to be learned from it; train cerp with "
            "assignment=learned"
        )
    if config.mix and not (method.can_be_mixed and config.store_seen):
        missing = "the training graph in its file" if method.can_be_mixed else "vectors"
        raise ConfigError(
            f"a mixture with the graph filter needs {missing}; leave out mix={config.mix}"
        )
    if config.mix == "together" and not method.is_trained:
        raise ConfigError(
            f"the method {config.method!r} computes its vectors without training, so that nothing "
            "is learned together with them; choose mix=True"
        )
    _refuse_item_only(config, method)
    candidates: dict[str, tuple[Candidate, ...]]
    if isinstance(method, ItemMethod):
        budgets = config.budgets if method.has_budget else (NONE,)
        candidates = {
            budget: (item_candidate(splits, config, method, budget),) for budget in budgets
        }
        return Plan(config, splits.learning_fingerprint, candidates, None)
    if not method.has_vectors:
        candidates = {NONE: (filter_candidate(splits, config),)}
        return Plan(config, splits.learning_fingerprint, candidates, None)
    backbones.check(config.backbone, config.backbone_options)
    _ = LOSSES[config.loss], PENALTIES[config.prune.penalty]
    if config.buckets is not None and config.assignment == "hash":
        Hash(config.hashing, splits.num_entities, config.buckets)  # refuses what it cannot hash
    positions = None
    if method.is_ordered and config.assignment == "hash":
        positions = order(splits.train, config.ordering, seed=config.seed)
    context = Context(splits, config, options, (), positions)
    budgets = (FULL,) if config.method == FULL else config.budgets
    candidates = {budget: tuple(precision_plan(method, context, budget)) for budget in budgets}
    return Plan(config, splits.learning_fingerprint, candidates, positions)


def refuse_unselectable(splits: Splits, selection_metric: str) -> None:
    """Refuse data without a validation part, and what is no metric to select by."""
    cutoff_of(selection_metric)
    if not len(splits.valid):
        raise DataError(
            "the validation part is empty, so that no epoch can be selected; split with a "
            "larger share for validation, or keep users with more interactions (k_core=3)"
        )


def _refuse_item_only(config: Config, method: Method) -> None:
    """Refuse a file without users of what cannot do without them."""
    if not config.item_only or (isinstance(method, ItemMethod) and not config.mix):
        return
    if not method.has_vectors:
        raise ConfigError(
            f"the method {config.method!r} ranks by what users took, which a file without users "
            "does not have; choose method=neighbours, or leave out item_only=True"
        )
    backbone = BACKBONES[config.backbone]
    if backbone.head != "dot" or backbone.needs_graph or config.mix:
        raise ConfigError(
            f"a file without users has items' vectors, which are scored by a dot product as they "
            f"are stored; {config.backbone} {'with a filter ' if config.mix else ''}needs more. "
            "Choose backbone=mf or method=neighbours, or leave out item_only=True"
        )


def pipeline(
    plan: Plan,
    splits: Splits,
    options: RunOptions,
    teach: Callable[[], Float32Array] | None = None,
) -> Pipeline:
    """The stages of a plan: with training, or without for a method that has no vectors."""
    method = METHODS[plan.config.method]
    kind: type[Pipeline] = VectorPipeline
    if not method.has_vectors:
        kind = ItemPipeline if issubclass(method, ItemMethod) else FilterPipeline
    return kind(plan, splits, options, teach)
