"""Search by evolution over arrays of whole numbers, with the randomness and the judge passed in."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from cerp.data.ids import Int64Array
from cerp.errors import ConfigError

TRIES = 100
"""How often a child is bred anew when it is like another or breaks the limit."""


class Space(Protocol):
    """What can be searched."""

    def draw(self, rng: np.random.Generator) -> Int64Array:
        """A random candidate within the limit."""

    def fits(self, genes: Int64Array) -> bool:
        """Whether a candidate is within the limit."""


@dataclass(frozen=True)
class Plan:
    """How long to search, and how; the defaults are OptEmbed's."""

    population: int = 20
    """Random candidates at the start."""
    parents: int = 15
    """The best so far, which the next generation comes from."""
    crossovers: int = 10
    mutations: int = 10
    mutation_rate: float = 0.1
    """The chance of each gene to be drawn anew."""
    generations: int = 30

    def __post_init__(self) -> None:
        counts = (self.population, self.parents, self.crossovers, self.mutations, self.generations)
        if min(counts[:2]) < 1 or min(counts) < 0 or not 0 < self.mutation_rate <= 1:
            raise ConfigError(
                "evolution needs a population and parents, no negative numbers, and a mutation "
                f"rate above 0 and up to 1; got {self}"
            )


class Evolved(NamedTuple):
    """What the search found."""

    genes: Int64Array
    fitness: float
    history: list[float]
    """The best fitness of the first population and after each generation; it never falls."""


def evolve(
    space: Space,
    fitness: Callable[[Int64Array], float],
    rng: np.random.Generator,
    plan: Plan | None = None,
) -> Evolved:
    """The fittest candidate of some generations; each candidate is judged once."""
    plan = plan or Plan()
    judged: set[bytes] = set()
    parents: list[_Candidate] = []
    history: list[float] = []
    children = [space.draw(rng) for _ in range(plan.population)]
    for _ in range(plan.generations + 1):
        for genes in children:
            if _key(genes) not in judged:
                judged.add(_key(genes))
                parents.append(_Candidate(fitness(genes), genes))
        # Sorting is stable: where two are equal, the earlier one stays ahead.
        parents = sorted(parents, key=lambda candidate: -candidate.fitness)[: plan.parents]
        history.append(parents[0].fitness)
        pool = [candidate.genes for candidate in parents]
        children = _children(pool, space, plan, rng, judged)
    return Evolved(parents[0].genes, parents[0].fitness, history)


def crossover(first: Int64Array, second: Int64Array, rng: np.random.Generator) -> Int64Array:
    """The genes of the first before a random cut, those of the second from there on."""
    cut = int(rng.integers(1, len(first)))
    return np.concatenate([first[:cut], second[cut:]])


def mutation(
    parent: Int64Array, fresh: Int64Array, rate: float, rng: np.random.Generator
) -> Int64Array:
    """The parent's genes, each with probability ``rate`` replaced by the fresh one."""
    return np.where(rng.random(len(parent)) < rate, fresh, parent)


class _Candidate(NamedTuple):
    fitness: float
    genes: Int64Array


def _children(
    parents: list[Int64Array],
    space: Space,
    plan: Plan,
    rng: np.random.Generator,
    judged: set[bytes],
) -> list[Int64Array]:
    """Crossovers, then mutations, of random parents; all fit, and none was judged before."""
    known, children = set(judged), []
    for number in range(plan.crossovers + plan.mutations):
        for _ in range(TRIES):
            one, other = (parents[place] for place in rng.integers(len(parents), size=2))
            if number < plan.crossovers:
                child = crossover(one, other, rng)
            else:
                child = mutation(one, space.draw(rng), plan.mutation_rate, rng)
            if _key(child) not in known and space.fits(child):
                known.add(_key(child))
                children.append(child)
                break
    return children


def _key(genes: Int64Array) -> bytes:
    """A short name: there can be a gene for every entity."""
    return hashlib.blake2b(genes.tobytes(), digest_size=16).digest()
