"""Fixtures shared by all tests, and the rule that nothing is skipped in silence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

# Tests are small: more threads than one only wait for each other. Set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import pytest

# The first call of some torch kernels takes longer than any deadline that would mean something.
hypothesis.settings.register_profile("cerp", deadline=None)
hypothesis.settings.load_profile("cerp")


@pytest.fixture
def shared_data() -> Callable[[str], Path]:
    """Real data of others, which is never in the repository: ``shared_data('ml-100k')``."""

    def folder(name: str) -> Path:
        root = os.environ.get("CERP_DATA_DIR")
        if not root:
            pytest.skip("CERP_DATA_DIR is not set")
        path = Path(root).resolve() / name
        if not path.is_dir():
            pytest.skip(f"CERP_DATA_DIR has no {name}")
        return path

    return folder


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With CERP_REFUSE_SKIPS (set in CI), a skip of anything but a GPU test is a failure."""
    if not os.environ.get("CERP_REFUSE_SKIPS"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    refused = [report.nodeid for report in skipped if "gpu" not in report.keywords]
    if refused:
        reporter.write_line(f"\nrefused to skip: {', '.join(refused)}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
