from __future__ import annotations

import pytest
import torch

from cerp.choices import ThresholdStart
from cerp.errors import ConfigError
from cerp.pruning.thresholds import initial_threshold

LIKE = torch.empty(100, 50)


def start(name: ThresholdStart, seed: int = 0) -> torch.Tensor:
    return initial_threshold(name, LIKE, -100.0, torch.Generator().manual_seed(seed))


def test_all_ones_start_at_the_scale():
    assert torch.equal(start("ones"), torch.full((100, 50), -100.0))


@pytest.mark.parametrize("name", ["uniform", "normal", "long-tail", "xavier-uniform"])
def test_a_random_start_spans_scale_to_zero_and_touches_each_end_once(name: ThresholdStart):
    threshold = start(name)
    assert (threshold.min().item(), threshold.max().item()) == (-100.0, 0.0)
    assert int((threshold == 0).sum()) == int((threshold == -100).sum()) == 1
    assert torch.equal(threshold, start(name))
    assert not torch.equal(threshold, start(name, seed=1))


@pytest.mark.parametrize(
    ("name", "below"), [("uniform", 0.25), ("xavier-uniform", 0.25), ("long-tail", 0.5)]
)
def test_a_quarter_of_the_scale_holds_the_share_of_its_distribution(
    name: ThresholdStart, below: float
):
    # P(u < 1/4) = 1/4 and P(u² < 1/4) = 1/2; the base is S / -100.
    assert (start(name) > -25).float().mean().item() == pytest.approx(below, abs=0.03)


def test_a_normal_start_has_the_tails_of_a_normal():
    threshold = start("normal")
    outside = ((threshold - threshold.mean()).abs() > threshold.std()).float().mean()
    assert outside.item() == pytest.approx(0.3173, abs=0.02)


def test_an_unknown_start_is_refused_with_the_names():
    with pytest.raises(ConfigError, match="ones, uniform, normal, long-tail, xavier-uniform"):
        start("zeros")
