"""The rules that `conftest.py` lays down for all tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def run_pytest(*arguments: str, before: str = "pass", **environment: str) -> tuple[int, str]:
    """The exit code and the output of a pytest of its own."""
    script = f"import sys, pytest; {before}; sys.exit(pytest.main(sys.argv[1:]))"
    ended = subprocess.run(
        [sys.executable, "-c", script, "-p", "no:cacheprovider", "-q", *arguments],
        cwd=TESTS.parent,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.slow
def test_all_tests_are_collected_without_playwright():
    code, output = run_pytest(
        "--collect-only", str(TESTS), before="sys.modules['playwright'] = None"
    )
    assert code == pytest.ExitCode.OK, output
    assert "test_page.py::test_the_keyboard_suffices" in output


def test_a_test_in_a_browser_is_skipped_without_playwright_and_that_is_refused_in_ci():
    test = str(TESTS / "server/test_page.py::test_the_keyboard_suffices")
    without = "sys.modules['playwright'] = None"
    assert run_pytest(test, before=without, CERP_REFUSE_SKIPS="")[0] == pytest.ExitCode.OK
    code, output = run_pytest(test, before=without, CERP_REFUSE_SKIPS="1")
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "refused to skip" in output


def test_a_gpu_test_is_skipped_without_a_gpu_also_in_ci():
    test = str(TESTS / "evaluation/test_ranking.py::test_the_accelerator_and_numpy_agree")
    code, output = run_pytest(test, CERP_REFUSE_SKIPS="1", CUDA_VISIBLE_DEVICES="")
    assert (code, "1 skipped" in output) == (pytest.ExitCode.OK, True), output


def test_whatever_starts_a_browser_is_marked():
    chosen = ("--collect-only", "-m", "browser", str(TESTS / "server"))
    _, output = run_pytest(*chosen)
    assert "test_page.py::test_the_keyboard_suffices" in output
    assert "test_page.py::test_the_service_worker_keeps_every_file" not in output
