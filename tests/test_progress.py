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
