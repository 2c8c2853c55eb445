"""The page's own runtime in Chromium, without a server: what it makes of many files at once."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

ORIGIN = "http://cerp.test/"
FLAGS = (
    "--no-sandbox",  # containers run as root
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
JUDGE = """async (files) => {
  const { decodeFile } = await import("/format.js");
  const judged = [];
  for (const file of files) {
    const bytes = Uint8Array.from(atob(file), (c) => c.charCodeAt(0)).buffer;
    const started = performance.now();
    let problem = null;
    try { await decodeFile(bytes); } catch (error) { problem = `${error.name}: ${error.message}`; }
    judged.push([problem, performance.now() - started]);
  }
  return judged;
}"""


class Judged(NamedTuple):
    """What the decoder says of a file."""

    problem: str | None
    """None: it is a model."""
    milliseconds: float


class PageRuntime:
    """The page's decoder, asked about files."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.route("**/*", _answer)
        page.goto(ORIGIN)

    def judge(self, batch: Sequence[bytes]) -> list[Judged]:
        """Whether each file is a model, and if not why."""
        encoded = [base64.b64encode(file).decode() for file in batch]
        return [Judged(*found) for found in self.page.evaluate(JUDGE, encoded)]


def _answer(route: Route) -> None:
    """The page's files; anything else is an empty page."""
    name = route.request.url.removeprefix(ORIGIN)
    if not name.endswith(".js"):
        route.fulfill(body="", content_type="text/html")
        return
    text = files("cerp.server").joinpath("page", name).read_text(encoding="utf-8")
    route.fulfill(body=text, content_type="text/javascript")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Chromium without a window."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()
