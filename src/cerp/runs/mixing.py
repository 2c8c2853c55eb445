"""Whether the graph filter beside trained vectors is better than either alone, by validation."""

from __future__ import annotations

from typing import Any

from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.evaluation.evaluate import Scorer
from cerp.graph.edges import Edges
from cerp.graph.filter import Exponents, GraphFilter
from cerp.graph.mixture import search_mixture
from cerp.graph.pair_shares import pair_shares
from cerp.graph.search import FoundExponents
from cerp.graph.search_sharpening import FoundSharpening
from cerp.graph.term import FilterTerm, Mixing
from cerp.graph.term_facts import term_facts, term_of_facts
from cerp.training.beside_filter import FilterPairs


def filter_pairs(train: Interactions, exponents: Exponents) -> FilterPairs:
    """What the filter gives pairs, to train vectors beside it."""
    shares = pair_shares(GraphFilter(Edges.of(train), exponents))
    return FilterPairs(shares.keys, shares.values, train.num_items)


def mixture_facts(
    splits: Splits,
    vectors: Scorer,
    found: FoundExponents | FoundSharpening,
    *,
    seed: int,
    quiet: bool,
    unit: float = 1.0,
) -> dict[str, Any]:
    """β and ε for a filter that was found, and how the mixture and its parts did; for JSON.

    ``unit`` as in `search_mixture`.
    """
    sharpening = found.sharpening if isinstance(found, FoundSharpening) else None
    model = GraphFilter(Edges.of(splits.train), found.exponents, sharpening)
    mixed = search_mixture(
        splits, vectors, model, metric=found.metric, seed=seed, quiet=quiet, unit=unit
    )
    term = FilterTerm(found.exponents, Mixing(mixed.beta, mixed.epsilon), sharpening)
    return {
        **term_facts(term),
        f"valid_{found.metric}": {
            "mixture": mixed.score,
            "vectors": mixed.vectors_score,
            "filter": mixed.filter_score,
        },
        # It need not be clearly above the better part: what it replaces may be the other one.
        "is_shipped": mixed.score >= max(mixed.vectors_score, mixed.filter_score),
        "is_clearly_better": mixed.helps,
        "seconds": round(found.seconds + mixed.seconds, 2),
    }


def term_of_mixture(facts: dict[str, Any] | None) -> FilterTerm | None:
    """What is added to the vectors; None where nothing was asked for, or nothing was gained."""
    return None if facts is None or not facts["is_shipped"] else term_of_facts(facts)
