"""How many rows the codebooks of a hash have, for a budget."""

from __future__ import annotations

from cerp.assignment.hashing import smallest_bucket_count

SPARE_AT_TENTH = 1.4
"""2bd / t, the codebook entries trained per entry kept, where a tenth of the table is kept.
Looser budgets keep this ratio: with less there would be too little to choose from."""

SPARE_GROWTH = 0.9
"""The power at which 2bd / t grows as the kept share falls below a tenth."""

SPARE_LIMIT = 14.0
"""The largest 2bd / t. Validation NDCG@10 at 99%, LightGCN, at ratios of 3, 5, 9 and 11:
ml-1m .133, .138, .143, .144; amazon-beauty .022, .023, .024, .024 (results/buckets.json)."""

LARGE_CODEBOOKS = 20_000_000
"""Codebook entries beyond which the spare ones are given up: training holds weights,
thresholds, their gradients and four optimizer moments, eight numbers for each entry."""


def bucket_count(limit: int, num_entities: int, dim: int) -> int:
    """The bucket count b for a budget of t values.

    ``2·b·d = t · clamp(1.4 · (0.1 / ρ)^0.9, 1.4, 14)`` with the kept share
    ρ = t / (N·d). The tighter the budget, the more entries pruning has to
    choose from. Three bounds follow: the spare entries do not take the
    codebooks beyond `LARGE_CODEBOOKS`, both codebooks together have at most N
    rows, and all entities can be told apart.
    """
    density = limit / (num_entities * dim)
    spare: float = SPARE_AT_TENTH * (0.1 / density) ** SPARE_GROWTH
    wanted = limit * min(max(spare, SPARE_AT_TENTH), SPARE_LIMIT)
    entries = min(wanted, max(LARGE_CODEBOOKS, limit * SPARE_AT_TENTH))
    buckets = min(round(entries / (2 * dim)), num_entities // 2)
    return max(buckets, smallest_bucket_count(num_entities))
