"""Progress away from a terminal: plain lines, and one at the end."""

from __future__ import annotations

import pytest

from cerp.progress import progress


def test_the_end_is_told_also_where_parts_do_not_add_up_in_floats(
    capsys: pytest.CaptureFixture[str],
):
    # Ten times 0.1 is 0.9999999999999999: nothing was said of the whole of learning codes.
    with progress("codes", 1) as bar:
        for _ in range(10):
            bar.advance(0.1, "error 0.5")
    assert capsys.readouterr().err == "codes: 100% error 0.5\n"


def test_quiet_work_says_nothing(capsys: pytest.CaptureFixture[str]):
    with progress("codes", 1, quiet=True) as bar:
        bar.advance(1)
    assert capsys.readouterr().err == ""


def test_lines_say_how_long_it_will_take(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    # A quarter in 30 seconds leaves 90.
    clock = iter([0.0, 30.0, 40.0])
    monkeypatch.setattr("cerp.progress.time.monotonic", lambda: next(clock))
    with progress("train", 4) as bar:
        bar.advance(1, "loss 0.5")
        bar.advance(3, "loss 0.4")
    assert capsys.readouterr().err == "train:  25%, 0:01:30 left loss 0.5\ntrain: 100% loss 0.4\n"
