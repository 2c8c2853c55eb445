"""The stages of a run without vectors: plan -> searched -> judged -> shipped.

There is no training: what the search found is the model.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from cerp.artifact import Encoding, encode
from cerp.budget import parse_size
from cerp.config import Config
from cerp.data.splits import Splits
from cerp.errors import BudgetError, ConfigError
from cerp.export.size_limit import SizeLimit
from cerp.export.to_arrays import ship_filter
from cerp.graph.filter import Exponents
from cerp.graph.scorers import scorer_with
from cerp.graph.term import FilterTerm
from cerp.methods.filter import term_of
from cerp.runs.figures import facts_without_vectors, with_file
from cerp.runs.fitted_model import FittedModel
from cerp.runs.pipeline import Pipeline
from cerp.runs.products import Searched
from cerp.sizing.file_overhead import HEADER_SLACK, longest_facts
from cerp.sizing.precision_plan import NONE, Candidate


def filter_candidate(splits: Splits, config: Config) -> Candidate:
    """The one way to write a filter; refused where its graph alone is over the limit."""
    if not config.store_seen:
        raise ConfigError(
            "a filter file holds the training graph, which is what users have seen; leave out "
            "store_seen=False"
        )
    limit = None if config.max_file_size is None else parse_size(config.max_file_size)
    candidate = Candidate(0, Encoding(), SizeLimit(file=limit))
    if limit is not None:
        term = FilterTerm(Exponents(0, 0, 0))
        graph = ship_filter(term, splits, longest_facts(config, splits, NONE, 0, has_vectors=False))
        if (size := len(encode(graph, candidate.encoding)) + HEADER_SLACK) > limit:
            raise BudgetError(
                f"a file of {limit:,} bytes is too small for the filter here: its graph and ids "
                f"take {size:,}"
            )
    return candidate


class FilterPipeline(Pipeline):
    """A plan whose method trains nothing."""

    def _model(self, budget: str, searched: Searched) -> FittedModel:
        (candidate,) = self.plan.candidates[budget]
        found = searched.found[candidate.limit]
        splits, term = self.final_context.splits, term_of(found)
        judged = self._judged(budget, partial(scorer_with, term, splits.train), None)
        metric = self.config.selection_metric
        facts = facts_without_vectors(NONE, candidate.limit, 0, judged, found, metric)
        model = FittedModel(
            None,
            splits,
            self.config,
            facts,
            candidate.encoding,
            candidate.size,
            judged.per_user,
            term,
        )
        return replace(model, facts=with_file(facts, self._shipped(budget, model)))
