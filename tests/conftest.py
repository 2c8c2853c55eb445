"""Fixtures shared by all tests, and the rule that nothing is skipped in silence."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

# Tests are small: more threads than one only wait for each other. Set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# The first call of some torch kernels takes longer than any deadline that would mean something.
# A commit gives the same answer every time; `--hypothesis-profile=explore` seeks new examples.
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.register_profile("cerp", deadline=None, derandomize=True)
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


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium without a window. A test that uses it is marked `browser`."""
    playwright = pytest.importorskip("playwright.sync_api", exc_type=ImportError)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("pages are looked at in Chromium: apt-get install chromium")
    flags = [
        "--no-sandbox",  # CI runs as root
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
    ]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=flags)
        yield browser
        browser.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts a browser, before ``-m`` chooses."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what is marked `gpu` where there is none."""
    if item.get_closest_marker("gpu"):
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")


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
