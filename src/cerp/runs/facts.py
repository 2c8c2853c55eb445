"""What is known of a trained model, by one set of names from training to the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, get_type_hints

from cerp.choices import Assignment, ValuePrecision
from cerp.data.splits import PARTS
from cerp.evaluation.metrics import cutoff_of
from cerp.kinds import fits

LATER = ("assignment", "codebooks", "code_bytes", "dim_deviation", "few_values")
"""What results of earlier versions do not have."""
OF_THE_FILE = ("embedding_bytes", "file_bytes", "why_no_file")
"""What only a model that was shipped, or refused to be, has."""

Figures = dict[str, str | float | dict[str, float | None] | None]
"""Of one part: means by metric, ``on``, and the same for popular and rare items."""


@dataclass(frozen=True)
class ModelFacts:
    """The figures of one model.

    Counts are those of the values as they are stored, so that they are the same
    for the model in memory, its file, and every page that shows them.
    """

    budget: str
    """As the caller wrote it; ``full`` for a model that is not compressed, ``none`` for one that
    stores no values."""
    limit: int
    """The largest number of values that the budget allows."""
    nnz: int
    """Values that are stored."""
    paper_count: int
    """Values as papers compare methods: those of single entities or codebook rows."""
    stored_count: int
    """Every learned number that is kept to have the vectors: networks and scales as well."""
    avg_dim: float
    """Mean number of places at which the vector of an entity has a stored value."""
    overlap: float | None
    """Mean share of places at which two rows of an entity both have a stored value, over all
    pairs of its rows."""
    buckets: int | None
    """Rows of each codebook, where there are codebooks."""
    empty_entities: int | None
    """Entities without a stored value."""
    empty_rows: int | None
    """Rows without a stored value."""
    best_epoch: int
    """The epoch that validation selected; 1 is the first."""
    best_valid: float
    """The selection metric on validation in that epoch."""
    selection_metric: str
    """What epochs and precisions were selected by."""
    seconds: float
    """Search, training and judging."""
    search: dict[str, Any] | None
    """What the method's search tells of itself, such as the epoch in which pruning was done."""
    values: ValuePrecision | None
    """How the file writes a value; None where there are none."""
    assignment: Assignment | None = None
    """How entities get their rows, where there are codebooks: by a hash, or by learned codes."""
    codebooks: int | None = None
    """How many there are: 2 for the hash; None for a method that has none."""
    code_bytes: int | None = None
    """Of the file: learned codes; 0 where rows follow from a formula, None without a file."""
    dim_deviation: float | None = None
    """Standard deviation, over entities, of the number that `avg_dim` is the mean of."""
    few_values: int | None = None
    """Entities with stored values at no more than three places, the empty ones among them."""
    embedding_bytes: int | None = None
    """Of the file: values, positions, codes, scales and the order of ids."""
    file_bytes: int | None = None
    """Of the whole file."""
    why_no_file: str | None = None
    """Why the model cannot be written to a file."""
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    """``metrics["test"]["ndcg@10"]``: valid and test, where they may be looked at."""

    @property
    def has_vectors(self) -> bool:
        """Whether users and items have vectors; else the graph alone ranks."""
        return self.values is not None

    def to_json(self) -> dict[str, Any]:
        """One flat dictionary, as ``cerp train --json`` prints it."""
        plain = {name: getattr(self, name) for name in (*_PLAIN, *LATER)}
        plain[_best_key(self.selection_metric)] = self.best_valid
        of_file = {name: getattr(self, name) for name in OF_THE_FILE}
        shown = {name: value for name, value in of_file.items() if value is not None}
        return {**plain, "selection_metric": self.selection_metric, **shown, **self.metrics}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> ModelFacts:
        """The inverse of `to_json`; a `KeyError` or `TypeError` where it is not as written."""
        metric = values["selection_metric"]
        plain: dict[str, Any] = {name: values[name] for name in _PLAIN}
        plain |= {name: values.get(name) for name in (*LATER, *OF_THE_FILE)}
        plain |= {"selection_metric": metric, "best_valid": values[_best_key(metric)]}
        plain["metrics"] = {part: values[part] for part in PARTS if values.get(part) is not None}
        for name, kind in {**get_type_hints(cls), "metrics": dict[str, Figures]}.items():
            if not fits(plain[name], kind):
                raise TypeError(f"{name} is {plain[name]!r}")
        selected_by = plain["metrics"].get("valid", {}).get(metric, 0.0)
        if not fits(selected_by, float):
            raise TypeError(f"{metric} on validation is {selected_by!r}")
        if "test" in plain["metrics"]:
            _refuse_incomplete(plain["metrics"]["test"], cutoff_of(metric))
        return cls(**plain)


_PLAIN = (
    "budget",
    "limit",
    "nnz",
    "paper_count",
    "stored_count",
    "avg_dim",
    "overlap",
    "buckets",
    "empty_entities",
    "empty_rows",
    "best_epoch",
    "seconds",
    "search",
    "values",
)


def _best_key(metric: str) -> str:
    return f"best_valid_{metric}"


def _refuse_incomplete(figures: Figures, cutoff: int) -> None:
    """Refuse figures without those that everything that shows a model relies on."""
    numbers = dict.fromkeys((f"ndcg@{cutoff}", f"recall@{cutoff}", "users"), float)
    for name, kind in {**numbers, "head": dict, "tail": dict}.items():
        if not fits(figures[name], kind):
            raise TypeError(f"{name} is {figures[name]!r}")
