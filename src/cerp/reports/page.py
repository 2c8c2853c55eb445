"""The page: what is known of the data, the sections in order, and one file out of it."""

from __future__ import annotations

from cerp.evaluation.metrics import CONVENTIONS
from cerp.pages import html
from cerp.pages.html import Card, Parts, element, folded
from cerp.pages.numbers import count
from cerp.pages.tables import WHAT_FIGURES_MEAN
from cerp.reports.accuracy import accuracy
from cerp.reports.commands import reproduction
from cerp.reports.curves import training
from cerp.reports.findings import Findings
from cerp.reports.heat import vectors
from cerp.reports.patterns import patterns
from cerp.reports.popularity import popularity
from cerp.reports.sizes import sizes
from cerp.reports.summary import summary

SIZES = """\
A budget such as 95% or a count limits stored values, and one in bytes the embedding as it is
stored: values, positions, scales and the order of ids. Sparsity is 1 - stored values / (N d) over
N users and items and d dimensions; the full table has 4 N d bytes. The average dimension is the
mean number of places at which a vector has a stored value. The sections of a file add up to its
size. KB = 1000 bytes. Models are selected on the validation part; the test part is read once.
"""


def page(found: Findings, title: str, data: str | None = None, seed: int = 0) -> str:
    """The report as one HTML document that needs nothing but itself.

    ``data`` and ``seed`` are what the data was called and split by, if it was given.
    """
    cards = [
        Card("summary", "Summary", [*_about_data(found, data), *summary(found)]),
        Card("accuracy", "Accuracy against budget", accuracy(found)),
        Card("bytes", "Bytes by section", sizes(found)),
        Card("popularity", "Recall by item popularity", popularity(found)),
        Card("vectors", "Ten vectors", vectors(found)),
        Card("training", "Training", [*training(found), *patterns(found)]),
        Card("protocol", "Protocol and conventions", _protocol()),
        Card("reproduce", "How to reproduce", reproduction(found, title, data, seed)),
    ]
    return html.page(title, cards)


def _about_data(found: Findings, data: str | None) -> Parts:
    counts = found.counts
    known = {
        "users": counts.users,
        "items": counts.items,
        "training interactions": counts.train,
        "for validation": counts.valid,
        "for the test": counts.test,
    }
    told = [f"{count(number)} {what}" for what, number in known.items() if number is not None]
    named = f"{data}: " if data else ""
    fingerprint = found.runs[0].origin.fingerprint
    return [
        element(
            "p",
            f"Data: {named}{', '.join(told) or 'of unknown size, for no run has a file'}; ",
            "fingerprint ",
            element("code", fingerprint[:12], title=fingerprint),
            f". {len(found.runs)} run{'s' if len(found.runs) > 1 else ''} with "
            f"{len(found.models)} model{'s' if len(found.models) > 1 else ''}.",
            class_="muted",
        )
    ]


def _protocol() -> Parts:
    return [
        folded(WHAT_FIGURES_MEAN, element("p", CONVENTIONS)),
        folded("What is counted as size", element("p", SIZES)),
    ]
