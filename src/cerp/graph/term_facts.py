"""A filter term as a flat object of plain numbers, for JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cerp.graph.filter import Exponents
from cerp.graph.sharpening import Sharpening
from cerp.graph.term import FilterTerm, Mixing


def term_facts(term: FilterTerm) -> dict[str, Any]:
    """Exponents; how it is sharpened, if it is; and in a mixture how much it counts."""
    parts = (term.exponents, term.sharpening, term.mixing)
    return {
        name: value for part in parts if part is not None for name, value in asdict(part).items()
    }


def term_of_facts(facts: Mapping[str, Any]) -> FilterTerm:
    """The inverse of `term_facts`, from an object that may hold more."""
    sharpening = mixing = None
    if "m" in facts:
        sharpening = Sharpening(facts["m"], facts["strength"], facts["times"])
    if "beta" in facts:
        mixing = Mixing(facts["beta"], facts["epsilon"])
    exponents = Exponents(*(float(facts[name]) for name in ("q", "p", "r")))
    return FilterTerm(exponents, mixing, sharpening)
