"""What a model file may ask of a machine: memory, and steps before the first list.

A small file can describe vectors without end, and put each together from thousands of tables.
Both are counted from the description, before anything is made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cerp.artifact.model import ComposedEmbedding, ShippedModel
from cerp.budget import parse_size
from cerp.errors import ConfigError

MAX_MEMORY = 4 << 30
"""Bytes that recommending from a model may take unless told otherwise: 4 GiB."""
STEPS_PER_BYTE = 4096
"""Steps for each byte of the file: a pass over the graph in each of 64 layers takes fewer."""
BYTES_PER_STEP = 4
"""Of the allowed memory, for which one more step is allowed whatever the file's size."""
PRODUCTS_PER_STEP = 16
"""Multiplications of a matrix product in the time of one step elsewhere."""


@dataclass(frozen=True)
class Limits:
    """The most that is allowed."""

    memory: int
    steps: int

    @classmethod
    def of(cls, max_memory: int | str, file_bytes: int | None) -> Limits:
        """``steps = max(max_memory / 4, 4096 · bytes of the file)``"""
        memory = max_memory
        if isinstance(memory, str):
            memory = parse_size(memory, "max_memory")
        return cls(memory, max(memory // BYTES_PER_STEP, STEPS_PER_BYTE * (file_bytes or 0)))

    def refuse_model(self, model: ShippedModel) -> None:
        """Refuse a model that takes more."""
        needed = memory_of(model)
        if needed > self.memory:
            raise ConfigError(
                f"recommending from this model takes about {needed:,} bytes, more than "
                f"max_memory={self.memory}; give more if the file is one that you trust"
            )
        self._refuse_steps(steps_of(model), "loading this model takes")

    def refuse_fold_in(self, num_entities: int, dim: int) -> None:
        """Refuse to fold in where that takes more: ``N d² + 2 d³`` multiplications."""
        products = num_entities * dim**2 + 2 * dim**3
        self._refuse_steps(products // PRODUCTS_PER_STEP, "recommending for someone new takes")

    def refuse_vectors(self, model: ShippedModel, count: int) -> None:
        """Refuse to hand out so many vectors of a file for lookups where they take more."""
        needed = count * model.dim * np.dtype(np.float32).itemsize
        if needed > self.memory:
            raise ConfigError(
                f"{count:,} vectors take {needed:,} bytes, more than max_memory={self.memory}; "
                "name fewer ids, or give more if the file is one that you trust"
            )
        self._refuse_steps(lookup_steps_of(model, count), f"composing {count:,} vectors takes")

    def refuse_comparison(self, model: ShippedModel) -> None:
        """Refuse to compare all vectors of a file for lookups with one where that takes more."""
        count = len(model.items)
        steps = lookup_steps_of(model, count) + count * model.dim
        self._refuse_steps(steps, f"comparing {count:,} vectors takes")

    def _refuse_steps(self, steps: int, what: str) -> None:
        if steps > self.steps:
            raise ConfigError(
                f"{what} about {steps:,} steps, and with max_memory={self.memory} a file of this "
                f"size may ask for {self.steps:,}; give more max_memory if the file is one that "
                "you trust"
            )


def memory_of(model: ShippedModel) -> int:
    """About the bytes that ranking takes: vectors in float32, and once more in float64.

    Of all entities where they are propagated, else of the items, for users are composed as they
    are asked for. A tower also has the items' halves of its first layer in both.
    """
    is_propagated = model.layers and isinstance(model.embedding, ComposedEmbedding)
    rows = len(model.items) + (len(model.users) if is_propagated else 0)
    halves = model.weights["first.bias"].size if model.head == "tower" else 0
    both = np.dtype(np.float32).itemsize + np.dtype(np.float64).itemsize
    return both * (rows * model.dim + len(model.items) * halves)


def steps_of(model: ShippedModel) -> int:
    """Values that are read, added or multiplied until the model is ready."""
    if not isinstance(model.embedding, ComposedEmbedding):
        return 0
    num_entities = len(model.users) + len(model.items)
    composed = num_entities if model.layers else len(model.items)
    # A row is looked up for each entity in each table, however few columns that has.
    steps: int = composed * sum(1 + table.weight.shape[1] for table in model.embedding.tables)
    if model.layers and model.seen is not None:
        steps += model.layers * model.dim * (2 * len(model.seen.items) + num_entities)
    if model.head == "tower":
        products = len(model.items) * model.dim * model.weights["first.bias"].size
        steps += products // PRODUCTS_PER_STEP
    return steps


def lookup_steps_of(model: ShippedModel, count: int) -> int:
    """Values that are read, added or multiplied for so many vectors of a file for lookups."""
    assert isinstance(model.embedding, ComposedEmbedding)
    steps: int = count * sum(1 + table.weight.shape[1] for table in model.embedding.tables)
    if model.projection is not None:
        steps += count * model.projection.matrix.size // PRODUCTS_PER_STEP
    return steps
