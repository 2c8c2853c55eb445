"""Every campaign for some seconds, as CI runs them: it tries something, and nothing fails.

That of the page's decoder is in tests/server/test_one_decoder.py.
"""

from __future__ import annotations

from collections import Counter

import pytest

from campaigns import markup
from campaigns.__main__ import CAMPAIGNS, run
from campaigns.harness import Campaign
from campaigns.http_saturation import Watched, judge

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


@pytest.mark.parametrize(
    ("health_ms", "cores", "megabytes", "words"),
    [
        (40, 1.4, [200] * 200, ("met: 99", "met: 200 MB")),
        (140, 1.4, [200] * 100 + [230] * 100, ("MISSED: 99", "MISSED: 200 MB, and 230")),
        (140, 0.2, [200, 230], ("not judged (the server had 0.20", "not judged (the run was")),
    ],
)
def test_saturation_says_in_words_which_bars_are_met(health_ms, cores, megabytes, words, capsys):
    campaign = Campaign("http_saturation", 0, 1.0, 1)
    memory = [one * 10**6 for one in megabytes]
    judge(campaign, Watched([health_ms / 1000] * 50, [0.001] * 50, memory, Counter()), cores)
    printed = capsys.readouterr().out
    for line, word in zip(campaign.figures["verdict"].values(), words, strict=True):
        assert line.startswith(word)
        assert line in printed
    assert campaign.num_failures == sum(word.startswith("MISSED") for word in words)
