"""Ids, titles and names that are HTML or script, through page and report: they stay text.

The page is looked at in Chromium: nothing runs, and no element appears that was not there. The
report has the same tags whatever things are called.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np

import cerp
from campaigns.browser import chromium
from campaigns.harness import Campaign
from campaigns.kills import CONFIG
from cerp.artifact import Encoding, encode
from cerp.artifact.model import ShippedModel
from cerp.config import RunOptions
from cerp.data.ids import Ids
from cerp.data.synthetic import synthetic
from cerp.runs.fit import fit_all
from cerp.runtime import Runtime
from cerp.server.app import create_app
from cerp.server.running import make_server
from small_models import NUM_ITEMS, NUM_USERS, small_model

if TYPE_CHECKING:
    from playwright.sync_api import Browser

STRINGS = (
    "<script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>",
    "\"><svg onload=window.hit=1>",
    "'-window.hit=1-'",
    "</title><script>window.hit=1</script>",
    "javascript:window.hit=1",
    "{{constructor.constructor('window.hit=1')()}}",
    "<iframe srcdoc='<script>parent.hit=1</script>'>",
    "</script><script>window.hit=1</script>",
    "<!--", "&lt;b&gt;", "\u202e<b>", "<style>*{display:none}</style>", "<a href=javascript:hit>",
)  # fmt: skip
SAFE = "plain words"


def attack(campaign: Campaign) -> None:
    """Each string in each place is a case."""
    with chromium() as browser:
        attack_in(browser, campaign)


def attack_in(browser: Browser, campaign: Campaign) -> None:
    """The same in a browser that is there."""
    rng = campaign.rng
    with tempfile.TemporaryDirectory() as place:
        plain = _report_tags(Path(place), SAFE)
        for number in campaign.rounds():
            hostile = _drawn(rng) if number >= len(STRINGS) else STRINGS[number]
            campaign.check(
                _report_tags(Path(place), hostile) == plain, f"{hostile!r} changed the report"
            )
            with _page(_called(hostile)) as url:
                page = browser.new_page()
                page.goto(url)
                page.wait_for_function("document.querySelectorAll('li').length > 0")
                has_run = page.evaluate("window.hit !== undefined")
                foreign = page.evaluate(
                    "document.querySelectorAll('iframe, li script, li img, li style, li a').length"
                )
                page.close()
            campaign.check(not has_run and not foreign, f"{hostile!r} became part of the page")
            if number + 1 >= len(STRINGS) * 2:
                break


def _drawn(rng: Random) -> str:
    return "".join(rng.choice(STRINGS) for _ in range(rng.randint(2, 3)))


def _called(name: str) -> ShippedModel:
    users = [f"{name} {code}" for code in range(NUM_USERS)]
    return replace(
        small_model(),
        users=Ids(np.array(users, dtype=object)),
        titles=[f"{code} {name}" for code in range(NUM_ITEMS)],
    )


@contextmanager
def _page(model: ShippedModel) -> Iterator[str]:
    server = make_server(create_app(Runtime(model), encode(model, Encoding()), "<b>name"), port=0)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://localhost:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


class _Tags(HTMLParser):
    """The tags of a page with the names of their attributes, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, ...]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, *(name for name, _ in attrs)))


def _report_tags(place: Path, name: str) -> list[tuple[str, ...]]:
    """Of the report of a run, with a title and a folder that are called so."""
    splits = synthetic(30, 20, 200).split(seed=0)
    run = place / "runs" / name.replace("/", "_")[:80]
    if not run.exists():
        fit_all(splits, CONFIG, RunOptions(folder=run, quiet=True))
    cerp.report(run, place / "report.html", splits, title=name)
    tags = _Tags()
    tags.feed((place / "report.html").read_text(encoding="utf-8"))
    return tags.found
