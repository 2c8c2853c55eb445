"""The bars of model files know no section by name."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import tostring

from cerp.reports.finished_runs import ModelFile
from cerp.reports.sizes import section_key
from small_models import small_model


def test_a_section_of_a_later_version_has_a_colour_and_a_name():
    files = [ModelFile(Path("model.cerp"), {"header": 9, "prices": 4, "ids": 2}, small_model())]
    key = tostring(section_key(files), encoding="unicode")
    # Declared sections in their order, then the rest; the colours of the style sheet are 0 to 13.
    assert [key.index(name) for name in ("ids", "header", "prices")] == sorted(
        key.index(name) for name in ("ids", "header", "prices")
    )
    assert all(f"part-{number}" in key for number in (10, 12, 13))
