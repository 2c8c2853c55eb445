"""The graph filter as a method: nothing is trained, a few numbers are searched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cerp.errors import ConfigError
from cerp.graph.search import Trial
from cerp.graph.search_sharpening import SharpeningTrial
from cerp.graph.term import FilterTerm
from cerp.graph.term_facts import term_facts, term_of_facts
from cerp.methods.base import Context, Method, Search
from cerp.models.embeddings.base import Embedding
from cerp.training.search_result import Found


class Filter(Method):
    """``F(u, i) = d_i^-r · Σ_{j ∈ N(u)} d_j^-p · Σ_{v ∈ N(j) ∩ N(i)} d_v^-q``

    `cerp.graph.filter` defines it. It stores no values: its file is the training graph and the
    exponents, which validation chooses by ``Config.selection_metric``.
    """

    has_vectors = False
    can_be_mixed = False
    has_budget = False
    is_parallel = False

    def search(self, context: Context) -> Search:
        """The exponents, the same for every limit, since nothing is stored."""
        found = context.filter_search.plain
        term = FilterTerm(found.exponents)
        return _search(context, term, found.metric, found.score, found.trials)

    def embedding(self, context: Context, limit: int, found: Found) -> Embedding:
        """Never asked for: a run looks at `has_vectors` first."""
        raise ConfigError("a graph filter has no vectors, so no embedding either")


class SharpFilter(Filter):
    """``F = max(0, D^-r (I − t K D^-m)^n K D^-p x)`` with ``K = Rᵀ D_u^-q R``

    `cerp.graph.sharpening` defines it. Its file is that of the filter and three numbers more, all
    chosen by validation; a list takes 1 + n times the work. Where validation does not like it
    clearly better, it is the plain filter.
    """

    def search(self, context: Context) -> Search:
        """The plain filter's exponents, and from there on what sharpens it best."""
        plain, found = context.filter_search.plain, context.filter_search.sharpened
        term = FilterTerm(found.exponents, sharpening=found.sharpening)
        trials: list[Trial | SharpeningTrial] = [*plain.trials, *found.trials]
        return _search(context, term, found.metric, found.score, trials)


def term_of(found: Found) -> FilterTerm:
    """The filter that a search found."""
    return term_of_facts(found.facts)


def _search(
    context: Context,
    term: FilterTerm,
    metric: str,
    score: float,
    trials: Sequence[Trial | SharpeningTrial],
) -> Search:
    facts: dict[str, Any] = {
        **term_facts(term),
        f"valid_{metric}": score,
        "trials": [
            {
                **term_facts(_tried(one)),
                metric: one.score,
                "users": one.users,
                "seconds": round(one.seconds, 3),
            }
            for one in trials
        ],
    }
    return Search({limit: Found({}, facts) for limit in context.limits}, [])


def _tried(trial: Trial | SharpeningTrial) -> FilterTerm:
    sharpening = trial.sharpening if isinstance(trial, SharpeningTrial) else None
    return FilterTerm(trial.exponents, sharpening=sharpening)
