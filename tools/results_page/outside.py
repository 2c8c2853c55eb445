"""Settings of measured rows that the paper's grids do not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cerp.pages.tables import markdown_table
from results_page.results_index import ResultsIndex

RATES, DECAYS = (1e-2, 1e-3, 1e-4), (1e-5, 1e-6, 1e-7)
"""The paper's grids: learning rates, and weight decays of Adam."""


def outside_parts(results: ResultsIndex) -> list[str]:
    """A line for each row of table 2 with a setting outside."""
    record = results.record("gowalla", "table2")
    lines: dict[tuple[str, str], str] = {}
    for entry in record.found if record else []:
        config, backbone = entry.result.config, entry.backbone
        if config is None or backbone is None:
            continue
        preset = "" if entry.run.preset == "default" else f", {entry.run.preset} preset"
        if told := _outside(config["train"]):
            lines.setdefault((f"{entry.run.method}{preset}", backbone), told)
    if not lines:
        return []
    return [
        "## Settings outside the paper's grids",
        "The paper searches learning rates of 1e-2, 1e-3 and 1e-4 and weight decays of 1e-5, 1e-6 "
        "and 1e-7, with Adam. These rows of table 2 are trained with something else:",
        markdown_table(
            ("row", "backbone", "training"), [(*key, told) for key, told in lines.items()]
        ),
    ]


def _outside(train: Mapping[str, Any]) -> str:
    """What is not in the grids, in words."""
    rate, decay, optimizer = (
        train[name] for name in ("learning_rate", "weight_decay", "optimizer")
    )
    told = []
    if rate not in RATES:
        told.append(f"rate {rate:g}")
    if optimizer != "adam":
        told.append(f"{optimizer}, decay {decay:g}")
    elif decay not in DECAYS:
        told.append(f"decay {decay:g}" if decay else "no decay")
    if train["schedule"] != "constant":
        told.append(f"{train['schedule']} over {train['epochs']} epochs")
    return ", ".join(told)
