from __future__ import annotations

import math

import pytest

from cerp.choices import StallAction
from cerp.errors import ConfigError
from cerp.pruning.stall import PruningEpoch, StallDetector


def history(*nnz: int) -> list[PruningEpoch]:
    return [PruningEpoch(epoch, count, -4.25, 0.125) for epoch, count in enumerate(nnz)]


def test_a_flat_nnz_is_a_stall():
    detector = StallDetector(target=100, patience=3)
    assert detector.message(history(500, 500, 499)) is None
    message = detector.message(history(500, 500, 499, 498))
    assert message is not None
    for part in ("epoch 3", "498 values", "target is 100", "1%", "threshold -4.25", "gamma 0.12"):
        assert part in message


@pytest.mark.parametrize(
    ("action", "consequence"),
    [("project", "exact projection"), ("stop", "stops"), ("report", "goes on")],
)
def test_a_stall_says_what_will_be_done(action: StallAction, consequence: str):
    message = StallDetector(100, action, patience=1).message(history(500, 500))
    assert message is not None
    assert consequence in message


def test_a_falling_nnz_is_no_stall():
    falling = [math.ceil(500 * 0.98**epoch) for epoch in range(30)]
    assert StallDetector(target=100).message(history(*falling)) is None


def test_one_good_epoch_ends_a_stall():
    assert StallDetector(100, patience=3).message(history(500, 500, 500, 450, 450)) is None


def test_a_reached_target_is_no_stall():
    assert StallDetector(target=500, patience=1).message(history(500, 500, 500)) is None


def test_flat_epochs_before_the_thresholds_arrive_do_not_count():
    detector = StallDetector(target=100, patience=2, first_epoch=3)
    assert detector.message(history(500, 500, 500, 500, 500)) is None
    assert detector.message(history(500, 500, 500, 500, 500, 500)) is not None


def test_an_unknown_stall_action_is_refused():
    with pytest.raises(ConfigError, match="project, stop, report"):
        StallDetector(10, "panic")
