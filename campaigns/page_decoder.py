"""Forged model files through the decoders of Python and of the page: they say the same."""

from __future__ import annotations

from campaigns.browser import PageRuntime, chromium
from campaigns.corpus import model_files
from campaigns.forging import forged
from campaigns.harness import Campaign
from cerp.artifact import decode
from cerp.errors import FileFormatError

AT_ONCE = 200


def attack(campaign: Campaign) -> None:
    """Each forged file is a case."""
    rng, corpus, models = campaign.rng, model_files(), 0
    with chromium() as browser:
        page = PageRuntime(browser.new_page())
        for number in campaign.rounds():
            count = min(AT_ONCE, campaign.most_cases - campaign.cases)
            files = [forged(rng.choice(corpus), rng) for _ in range(count)]
            for place, (file, there) in enumerate(zip(files, page.judge(files), strict=True)):
                here = _problem(file)
                models += here is None
                campaign.largest("slowest_ms_in_browser", there.milliseconds)
                campaign.check(
                    (here is None) == (there.problem is None),
                    f"file {place} of round {number}: Python says {here}, the page {there.problem}",
                )
    campaign.figures["models"] = models


def _problem(file: bytes) -> str | None:
    """Why the file cannot be used; None: it can."""
    try:
        decode(file)
    except FileFormatError as error:
        return str(error)
    return None
