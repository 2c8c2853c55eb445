"""``python -m results_page results docs/results.md``: build the page."""

from __future__ import annotations

import sys
from pathlib import Path

from cerp.files import write_text
from results_page.page import summary

write_text(Path(sys.argv[2]), summary(Path(sys.argv[1])))
