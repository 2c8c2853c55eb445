"""The graph filter as a method: nothing is trained, three exponents are searched."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cerp.errors import ConfigError
from cerp.graph.filter import Exponents
from cerp.graph.search import search_exponents
from cerp.graph.term import FilterTerm
from cerp.methods.base import Context, Method, Search
from cerp.models.embeddings.base import Embedding
from cerp.training.search_result import Found


class Filter(Method):
    """``F(u, i) = d_i^-r · Σ_{j ∈ N(u)} d_j^-p · Σ_{v ∈ N(j) ∩ N(i)} d_v^-q``

    `cerp.graph.filter` defines it. It stores no values: its file is the training graph and the
    exponents, which validation chooses by ``Config.selection_metric``.
    """

    has_vectors = False
    has_budget = False
    is_parallel = False

    def search(self, context: Context) -> Search:
        """The exponents, the same for every limit, since nothing is stored."""
        found = search_exponents(
            context.splits,
            metric=context.config.selection_metric,
            seed=context.config.seed,
            quiet=context.options.quiet,
        )
        facts: dict[str, Any] = {
            **asdict(found.exponents),
            f"valid_{found.metric}": found.score,
            "trials": [
                {
                    **asdict(one.exponents),
                    found.metric: one.score,
                    "users": one.users,
                    "seconds": round(one.seconds, 3),
                }
                for one in found.trials
            ],
        }
        return Search({limit: Found({}, facts) for limit in context.limits}, [])

    def embedding(self, context: Context, limit: int, found: Found) -> Embedding:
        """Never asked for: a run looks at `has_vectors` first."""
        raise ConfigError("the method 'filter' has no vectors, so no embedding either")


def term_of(found: Found) -> FilterTerm:
    """The filter with the exponents that its search found."""
    return FilterTerm(Exponents(*(float(found.facts[name]) for name in ("q", "p", "r"))))
