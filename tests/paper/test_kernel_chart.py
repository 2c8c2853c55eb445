"""The chart of a GPU's kernels: kinds of work, their sums, and what the list leaves out."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree.ElementTree import tostring

import pytest

from cerp.pages.svg import standalone
from results_page.kernels import DRAWN, OTHERS, PROFILE, SHORT, by_kind, kernel_chart, kind_of

ROOT = Path(__file__).parents[2]


def kernel(name: str, microseconds: float) -> dict[str, object]:
    return {"name": name, "microseconds_per_step": microseconds, "calls_per_step": 1.0}


PRODUCT, SORT = "void cusparse::csrmm<float>(int)", "void cub::radix_sort::Onesweep(int)"
STEP = {
    "microseconds_per_step": 100.0,
    "kernels": [
        kernel(PRODUCT, 60.0),
        kernel("_step", 20.0),
        kernel(SORT, 8.0),
        kernel("add", 5.0),
    ],
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (PRODUCT, "sparse products"),
        ("_rows_transposed_times", "dense products"),
        ("memcpy32_post", "copies and fills"),
        (SORT, "gathers and sorts"),
        ("void at::native::reduce_kernel<512>(int)", OTHERS),
    ],
)
def test_kernels_are_told_apart_by_their_names(name: str, kind: str):
    assert kind_of(name) == kind


def test_kinds_add_up_to_the_step():
    found = by_kind(STEP)
    assert {kind: taken for kind, taken in found.items() if taken} == {
        "sparse products": 60.0,
        "Adam and pruning": 20.0,
        "gathers and sorts": 8.0,
        OTHERS: 5.0,
        SHORT: 7.0,
    }


def test_both_steps_are_drawn_to_one_scale(tmp_path: Path):
    path = tmp_path / PROFILE
    half = {"microseconds_per_step": 50.0, "kernels": [kernel("_rows_times", 50.0)]}
    path.write_text(json.dumps({"before": STEP, "after": half, "machine": {}}))
    drawn = tostring(kernel_chart(path), encoding="unicode")
    # 704 units are 100 microseconds: 60 of them 422.4, and 50 half of all.
    assert 'width="422.4"' in drawn
    assert 'width="352.0"' in drawn
    assert "with propagation: 100 µs" in drawn
    assert "with a dense matrix: 50 µs" in drawn


def test_the_chart_of_the_documents_is_built_from_the_results():
    drawn = standalone(kernel_chart(ROOT / "results" / PROFILE))
    assert (ROOT / "docs" / DRAWN).read_text(encoding="utf-8") == drawn, "run: make results-page"
