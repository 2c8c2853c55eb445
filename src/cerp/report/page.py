"""The page: what is known of the data, the sections in order, and one file out of it."""

from __future__ import annotations

from importlib.resources import files
from xml.etree.ElementTree import Element

from cerp._version import __version__
from cerp.evaluation.metrics import CONVENTIONS
from cerp.report.accuracy import accuracy
from cerp.report.curves import training
from cerp.report.findings import Findings
from cerp.report.heat import vectors
from cerp.report.html import Section, count, document, element
from cerp.report.popularity import popularity
from cerp.report.reproduce import reproduction
from cerp.report.sizes import sizes
from cerp.report.summary import summary

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
    parts = {
        "summary": ("Summary", [*_about_data(found, data), *summary(found)]),
        "accuracy": ("Accuracy against budget", accuracy(found)),
        "bytes": ("Bytes by section", sizes(found)),
        "popularity": ("Recall by item popularity", popularity(found)),
        "vectors": ("Ten vectors", vectors(found)),
        "training": ("Training", training(found)),
        "protocol": ("Protocol and conventions", _protocol()),
        "reproduce": ("How to reproduce", reproduction(found, title, data, seed)),
    }
    links = [
        element("li", element("a", name, href=f"#{anchor}")) for anchor, (name, _) in parts.items()
    ]
    body = element(
        "body",
        element(
            "header",
            element("p", "cerp", class_="wordmark"),
            element("h1", title),
            element("nav", element("ul", *links), aria_label="Sections"),
        ),
        element("main", *(_card(anchor, *part) for anchor, part in parts.items())),
        element("footer", element("p", f"Made by cerp {__version__}.", class_="muted")),
    )
    return document(element("html", _head(title), body, lang="en"))


def _head(title: str) -> Element:
    style = files("cerp.report").joinpath("style.css").read_text(encoding="utf-8")
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name_="color-scheme", content="light dark"),
        element("title", title),
        element("style", style),
    )


def _card(anchor: str, name: str, parts: Section) -> Element:
    heading = element("h2", name, id=f"{anchor}-title")
    return element(
        "section", heading, *parts, id=anchor, class_="card", aria_labelledby=f"{anchor}-title"
    )


def _about_data(found: Findings, data: str | None) -> Section:
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
    fingerprint = found.runs[0].result["fingerprint"]
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


def _protocol() -> Section:
    return [element("p", CONVENTIONS), element("p", SIZES)]
