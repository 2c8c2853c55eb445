"""Scorers with a filter in them."""

from __future__ import annotations

from cerp.data.interactions import Interactions
from cerp.evaluation.evaluate import Scorer
from cerp.graph.edges import Edges
from cerp.graph.filter import GraphFilter
from cerp.graph.mixture import Mixture
from cerp.graph.term import FilterTerm


def scorer_with(term: FilterTerm, train: Interactions, vectors: Scorer | None = None) -> Scorer:
    """The scores of a filter alone, or of vectors and filter together."""
    model = GraphFilter(Edges.of(train), term.exponents, term.sharpening)
    if term.mixing is None:
        return model
    assert vectors is not None, "a mixture has two parts"
    return Mixture(vectors, model, term.mixing.beta, term.mixing.epsilon)
