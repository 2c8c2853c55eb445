"""What a portfolio gives: all that was tried, and the model that validation chose."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from cerp.choices import ValuePrecision
from cerp.errors import BudgetError
from cerp.runs.facts import ModelFacts
from cerp.runs.fitted_model import FittedModel


@dataclass(frozen=True)
class Tried:
    """One member, and what came of it."""

    name: str
    file_bytes: int | None = None
    values: ValuePrecision | None = None
    """How the file writes a value; None where there are none."""
    valid_ndcg10: float | None = None
    valid: float | None = None
    """The metric that the choice is made by, on validation."""
    seconds: float = 0.0
    """Search, training and judging; of a mixture with the training of its vectors. The search for
    the graph filter counts where it was made, not where it was read."""
    why_not: str | None = None
    """Why there is no model of it."""

    def to_json(self) -> dict[str, Any]:
        """As ``cerp train --json`` prints it."""
        return asdict(self)


def tried_model(name: str, facts: ModelFacts) -> Tried:
    """A member with a model, or with the reason why it has no file."""
    valid = facts.metrics["valid"]
    return Tried(
        name,
        facts.file_bytes,
        facts.values,
        valid["ndcg@10"],
        valid[facts.selection_metric],
        facts.seconds,
        facts.why_no_file,
    )


@dataclass(frozen=True, repr=False)
class Choice:
    """The best model that fits, and what else was tried."""

    model: FittedModel
    tried: list[Tried]
    winner: str
    """The name of the member that was chosen."""
    why: str
    """Why it was chosen, in a sentence."""

    def to_json(self) -> dict[str, Any]:
        """What ``cerp train --json`` adds to the figures of the model."""
        tried = [one.to_json() for one in self.tried]
        return {"tried": tried, "winner": self.winner, "why": self.why}

    def __repr__(self) -> str:
        lines = [f"Choice({self.winner!r}, {self.why})"]
        for one in self.tried:
            if one.why_not is None:
                lines.append(f"  {one.name}: {one.valid:.4f}, {one.file_bytes:,} bytes")
            else:
                lines.append(f"  {one.name}: {one.why_not}")
        return "\n".join([*lines, repr(self.model)])


def best_of(tried: list[Tried], size: str) -> Tried:
    """The best on validation, and the smaller of equals."""
    fitting = [one for one in tried if one.why_not is None]
    if not fitting:
        reasons = "; ".join(f"{one.name}: {one.why_not}" for one in tried)
        raise BudgetError(f"nothing was found for a file of {size}: {reasons}")
    return max(fitting, key=lambda one: (one.valid or 0.0, -(one.file_bytes or 0)))


def reason(best: Tried, tried: list[Tried], metric: str) -> str:
    """Why the best is the best, in a sentence."""
    others = [one for one in tried if one.why_not is None and one is not best]
    said = f"{best.name} has the best {metric} on validation, {best.valid:.4f}"
    if not others:
        return f"{said}: no other has a model"
    second = best_of(others, "")
    if second.valid == best.valid:
        return f"{said}, as {second.name}, and takes fewer bytes"
    return f"{said}; next is {second.name} with {second.valid:.4f}"
