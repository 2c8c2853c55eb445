from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cerp.pruning.functional import (
    PENALTY_VALUES,
    _KeptPenalty,
    _Penalty,
    jaccard,
    margin,
    pruning_penalty,
    shift_to_keep,
    soft_threshold,
    top_mask,
)


def logit(share: float) -> float:
    return math.log(share / (1 - share))


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_soft_threshold_by_hand():
    weight = torch.tensor([0.5, -0.5, 0.1, -0.1, 0.0])
    pruned = soft_threshold(weight, torch.full((5,), logit(0.2)))
    torch.testing.assert_close(pruned, torch.tensor([0.3, -0.3, 0.0, 0.0, 0.0]))


def test_a_ceiling_scales_thresholds():
    weight = torch.tensor([2.0, -2.0, 0.5])
    pruned = soft_threshold(weight, torch.full((3,), logit(0.2)), torch.tensor(6.0))
    torch.testing.assert_close(pruned, torch.tensor([0.8, -0.8, 0.0]))


@pytest.mark.parametrize("ceiling", [1.0, 1.3])
def test_soft_threshold_gradients_match_finite_differences(ceiling: float):
    weight = torch.tensor([[0.9, -0.7, 0.1], [-0.2, 0.6, -0.8]], dtype=torch.float64)
    threshold = torch.tensor([[-2.0, 0.1, -1.0], [0.5, -0.4, -3.0]], dtype=torch.float64)
    arguments = (weight.requires_grad_(), threshold.requires_grad_(), ceiling)
    assert torch.autograd.gradcheck(soft_threshold, arguments)


def test_soft_threshold_gradients_are_the_papers():
    weight, threshold, incoming = normal(40), normal(40, seed=1), normal(40, seed=2)
    pruned = soft_threshold(weight.requires_grad_(), threshold.requires_grad_())
    pruned.backward(incoming)
    cut = 1 / (1 + np.exp(-threshold.detach().numpy()))
    alive = np.abs(weight.detach().numpy()) > cut
    expected = -cut * (1 - cut) * incoming.numpy() * np.sign(weight.detach().numpy()) * alive
    assert 0 < alive.sum() < 40
    np.testing.assert_array_equal(weight.grad, incoming.numpy() * alive)
    np.testing.assert_allclose(threshold.grad, expected, rtol=1e-5)


def test_a_threshold_at_minus_100_gets_no_gradient_from_the_loss():
    threshold = torch.full((3,), -100.0, requires_grad=True)
    soft_threshold(normal(3), threshold).sum().backward()
    assert threshold.grad.count_nonzero() == 0


def test_penalty_counts_the_nonzero_entries():
    vectors = torch.tensor([[0.05, 0.0, -0.3], [0.0, 0.0, 0.2]])
    assert pruning_penalty(vectors, temperature=100).item() == pytest.approx(-3, abs=1e-3)


def test_penalty_by_hand_with_weights():
    vectors = torch.tensor([[0.01], [0.02]])
    expected = -(0.5 * math.tanh(1) ** 2 + 3 * math.tanh(2) ** 2)
    weighted = pruning_penalty(vectors, temperature=100, weight=torch.tensor([0.5, 3.0]))
    assert weighted.item() == pytest.approx(expected)


def test_penalty_prefers_complementary_rows_at_equal_nonzeros():
    p = torch.tensor([0.1, 0.1, 0.0, 0.0])
    overlapping, complementary = (p + p)[None], (p + p.flip(0))[None]
    assert pruning_penalty(complementary, temperature=100) < pruning_penalty(
        overlapping, temperature=100
    )


@pytest.mark.parametrize("ceiling", [1.0, 3.0])
def test_margin_is_positive_where_soft_threshold_keeps(ceiling: float):
    weight, threshold = normal(200), normal(200, seed=1)
    kept = soft_threshold(weight, threshold, ceiling) != 0
    assert 0 < kept.sum() < 200
    assert torch.equal(margin(weight, threshold, ceiling) > 0, kept)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=60), st.integers(0, 70))
def test_top_mask_is_a_stable_sort_by_falling_score(scores: list[int], count: int):
    order = sorted(range(len(scores)), key=lambda place: -scores[place])
    mask = top_mask(torch.tensor(scores, dtype=torch.float32), count)
    assert set(mask.nonzero().flatten().tolist()) == set(order[:count])


def test_top_mask_keeps_the_shape_and_crosses_rows():
    score = torch.tensor([[5.0, 1.0], [4.0, 3.0]])
    assert top_mask(score, 3).tolist() == [[True, False], [True, True]]


@settings(max_examples=30)
@given(
    st.integers(1, 400),
    st.integers(0, 1000),
    st.sampled_from([torch.float32, torch.float64]),
    st.floats(0.01, 100),
)
def test_the_shift_keeps_the_wanted_number(
    count: int, seed: int, dtype: torch.dtype, largest: float
):
    weight = normal(20, 20, seed=seed).to(dtype)
    weight *= largest / weight.abs().max()
    threshold = normal(20, 20, seed=seed + 1).to(dtype)
    shift = shift_to_keep(weight, threshold, count, largest)
    kept = int(torch.count_nonzero(soft_threshold(weight, threshold + shift, largest)))
    assert kept == pytest.approx(count, abs=2)


def test_the_shift_cancels_a_common_offset():
    weight, threshold = normal(50) * 0.1, normal(50, seed=1)
    low = shift_to_keep(weight, threshold - 4, 10)
    torch.testing.assert_close(low, shift_to_keep(weight, threshold, 10) + 4)


def test_entries_at_the_ceiling_and_above_survive_every_shift():
    weight = torch.tensor([2.0, 1.5, 0.5, 0.1])
    for ceiling, kept in ((1.0, 2), (1.6, 1)):
        shift = shift_to_keep(weight, torch.zeros(4), 1, ceiling)
        assert soft_threshold(weight, shift.expand(4), ceiling).count_nonzero() == kept


def test_half_precision_is_ranked_too():
    score = torch.tensor([1.0, 3.0, 2.0])
    for dtype in (torch.bfloat16, torch.float16):
        assert top_mask(score.to(dtype), 2).tolist() == [False, True, True]


def test_jaccard_by_hand():
    first = torch.tensor([True, True, False, False])
    second = torch.tensor([True, False, True, False])
    assert jaccard(first, second) == 1 / 3
    assert jaccard(first, first) == 1
    assert jaccard(first & ~first, second & ~second) == 1


def test_the_gradient_of_the_penalty_is_that_of_the_plain_formula():
    generator = torch.Generator().manual_seed(0)
    # More entries than are looked at together, so that the parts have to be put in their places.
    shape = (3, PENALTY_VALUES // 8 // 2, 8)
    vectors = (torch.randn(shape, generator=generator, dtype=torch.float64) / 50).requires_grad_()
    weight = torch.rand(shape[:-1], generator=generator, dtype=torch.float64)
    plain = -(torch.tanh(30 * vectors).square().sum(-1) * weight).sum()
    ours = pruning_penalty(vectors, temperature=30, weight=weight)
    torch.testing.assert_close(ours, plain)
    (expected,) = torch.autograd.grad(3 * plain, vectors)
    (found,) = torch.autograd.grad(3 * ours, vectors)
    torch.testing.assert_close(found, expected)


def test_the_penalty_takes_a_single_vector():
    vector = torch.tensor([0.01, 0.02], requires_grad=True)
    penalty = pruning_penalty(vector, temperature=100)
    penalty.backward()
    assert penalty.item() == pytest.approx(-(math.tanh(1) ** 2 + math.tanh(2) ** 2))
    slopes = [-200 * math.tanh(x) * (1 - math.tanh(x) ** 2) for x in (1, 2)]
    assert vector.grad.tolist() == pytest.approx(slopes, rel=1e-5)


def test_the_penalty_takes_vectors_that_lie_apart_in_memory():
    whole = normal(6, 4).requires_grad_()
    for apart in (whole[:, 1:3], whole.T, whole[::2]):
        plain = -torch.tanh(2 * apart).square().sum()
        ours = pruning_penalty(apart, temperature=2)
        torch.testing.assert_close(ours, plain)
        (expected,) = torch.autograd.grad(plain, whole)
        (found,) = torch.autograd.grad(ours, whole)
        torch.testing.assert_close(found, expected)


def test_going_back_through_a_penalty_twice_is_refused():
    penalty = pruning_penalty(normal(3, 2).requires_grad_(), temperature=1)
    penalty.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="compute it again"):
        penalty.backward()


def test_the_penalty_of_gpus_is_that_of_cpus():
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(30, 5, dtype=torch.float64, generator=generator)
    counts = torch.randint(0, 4, (30,), generator=generator).double()
    ways = []
    for way in (_Penalty, _KeptPenalty):
        start = vectors.clone().requires_grad_()
        penalty = way.apply(start, counts, 3.0)
        (gradient,) = torch.autograd.grad(0.7 * penalty, start)
        ways.append((penalty.detach(), gradient))
    for on_cpu, on_gpu in zip(*ways, strict=True):
        torch.testing.assert_close(on_cpu, on_gpu)
