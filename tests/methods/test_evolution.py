from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerp.errors import ConfigError
from cerp.methods.optembed.evolution import Plan, crossover, evolve, mutation


class Numbers:
    """Ten digits that add up to at most 30."""

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        while True:
            genes = rng.integers(0, 10, size=10)
            if self.fits(genes):
                return genes

    def fits(self, genes: np.ndarray) -> bool:
        return int(genes.sum()) <= 30


def alternating(genes: np.ndarray) -> float:
    return float(genes[::2].sum() - genes[1::2].sum())


@settings(max_examples=10)
@given(st.integers(0, 1000))
def test_the_best_fitness_never_falls_and_belongs_to_the_genes(seed: int):
    found = evolve(Numbers(), alternating, np.random.default_rng(seed), Plan(generations=8))
    assert len(found.history) == 9
    assert all(before <= after for before, after in pairwise(found.history))
    assert found.fitness == found.history[-1] == alternating(found.genes)


def test_evolution_finds_what_random_draws_do_not():
    found = evolve(Numbers(), alternating, np.random.default_rng(0))
    assert found.fitness >= 27  # of 30 possible
    assert found.history[0] < 20


def test_only_fitting_candidates_are_judged_each_once_and_never_changed():
    judged: list[tuple[np.ndarray, bytes]] = []

    def note(genes: np.ndarray) -> float:
        judged.append((genes, genes.tobytes()))
        return alternating(genes)

    evolve(Numbers(), note, np.random.default_rng(1), Plan(generations=5))
    assert all(Numbers().fits(genes) for genes, _ in judged)
    assert len({key for _, key in judged}) == len(judged) == 20 + 5 * 20
    assert all(genes.tobytes() == key for genes, key in judged)


def test_the_same_generator_finds_the_same():
    plan = Plan(generations=3)
    first, second = (evolve(Numbers(), alternating, np.random.default_rng(4), plan) for _ in "ab")
    assert first.history == second.history
    assert first.genes.tolist() == second.genes.tolist()


def test_a_space_with_a_single_candidate_is_searched():
    class One:
        def draw(self, rng: np.random.Generator) -> np.ndarray:
            return np.array([1, 1])

        def fits(self, genes: np.ndarray) -> bool:
            return genes.tolist() == [1, 1]

    found = evolve(One(), lambda genes: 0.5, np.random.default_rng(0), Plan(generations=2))
    assert (found.genes.tolist(), found.history) == ([1, 1], [0.5, 0.5, 0.5])


@given(st.integers(2, 6), st.integers(0, 1000))
def test_a_crossover_has_a_head_and_a_tail(length: int, seed: int):
    zeros, ones = np.zeros(length, dtype=int), np.ones(length, dtype=int)
    child = crossover(zeros, ones, np.random.default_rng(seed)).tolist()
    assert child == sorted(child)
    assert 0 < sum(child) < length


def test_a_mutation_redraws_each_gene_at_its_rate():
    parent, fresh = np.zeros(10_000, dtype=int), np.ones(10_000, dtype=int)
    child = mutation(parent, fresh, 0.1, np.random.default_rng(0))
    assert child.mean() == pytest.approx(0.1, abs=0.01)
    assert not parent.any()


def test_a_plan_without_a_population_is_refused():
    with pytest.raises(ConfigError, match="population=0"):
        Plan(population=0)
