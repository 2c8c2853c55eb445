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
from cerp.graph.term import FilterTerm, Mixing
from cerp.training.beside_filter import FilterPairs


def filter_pairs(train: Interactions, exponents: Exponents) -> FilterPairs:
    """What the filter gives pairs, to train vectors beside it."""
    shares = pair_shares(GraphFilter(Edges.of(train), exponents))
    return FilterPairs(shares.keys, shares.values, train.num_items)


def mixture_facts(
    splits: Splits, vectors: Scorer, found: FoundExponents, *, seed: int, quiet: bool
) -> dict[str, Any]:
    """β and ε for exponents that were found, and how the mixture and its parts did; for JSON."""
    exponents = found.exponents
    model = GraphFilter(Edges.of(splits.train), exponents)
    mixed = search_mixture(splits, vectors, model, metric=found.metric, seed=seed, quiet=quiet)
    return {
        "q": exponents.q,
        "p": exponents.p,
        "r": exponents.r,
        "beta": mixed.beta,
        "epsilon": mixed.epsilon,
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
    if facts is None or not facts["is_shipped"]:
        return None
    exponents = Exponents(*(float(facts[name]) for name in ("q", "p", "r")))
    return FilterTerm(exponents, Mixing(facts["beta"], facts["epsilon"]))
