"""``python -m results_page results docs/results.md``: build all pages of results."""

from __future__ import annotations

import sys
from pathlib import Path

from cerp.files import write_text
from cerp.pages.svg import standalone
from results_page.frontier import FIGURE
from results_page.kernels import DRAWN, PROFILE, kernel_chart
from results_page.page import summary
from results_page.rebuild import rebuild

RESULTS, PAGE = map(Path, sys.argv[1:])
rebuild(RESULTS)
write_text(PAGE, summary(RESULTS))
drawn = RESULTS / "gowalla" / FIGURE
write_text(
    PAGE.with_name(FIGURE), drawn.read_text(encoding="utf-8")
)  # the documents' first picture
write_text(PAGE.with_name(DRAWN), standalone(kernel_chart(RESULTS / PROFILE)))
