"""Every campaign for some seconds, as CI runs them: it tries something, and nothing fails.

That of the page's decoder is in tests/server/test_one_decoder.py.
"""

from __future__ import annotations

import pytest

from campaigns import markup
from campaigns.__main__ import CAMPAIGNS, run
from campaigns.harness import Campaign

SHORT = {
    "model_files": 1000,
    "page_decoder": 400,
    "readers": 3000,
    "kills": 10,
    "run_folders": 20,
    "http_surface": 200,
    "markup": 2,
}
"""Cases; the two that are not here take minutes, or a quiet machine, to say anything."""


def test_all_but_the_long_ones_are_run_here():
    assert set(CAMPAIGNS) - set(SHORT) == {"torchrun_kills", "http_saturation"}


def test_markup_stays_text(browser):
    campaign = Campaign("markup", seed=1, seconds=120, most_cases=SHORT["markup"])
    markup.attack_in(browser, campaign)
    assert campaign.cases > 0
    assert campaign.failures == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SHORT if name not in ("page_decoder", "markup")])
def test_a_campaign_finds_nothing(name: str):
    found = run(name, seconds=60, seed=1, most_cases=SHORT[name])
    assert found["cases"] > 0
    assert found["first_failures"] == []
