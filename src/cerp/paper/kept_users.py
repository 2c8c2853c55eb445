"""CERP's figures of each user, kept beside the tables.

An interval needs those of both sides. So what is measured later, on another machine, is compared
with CERP's runs whose own folder may be gone: ``OUTPUT/<dataset>/users/`` has theirs.
"""

from __future__ import annotations

from pathlib import Path

from cerp.comparison.results import Results, copy_user_values
from cerp.paper.build_record import compared_run
from cerp.paper.record import Record


def restore_users(results: Results, folder: Path) -> None:
    """Take over from ``folder`` what the folder of runs lacks."""
    for result in results.all:
        if not results.has_user_values(result.cell):
            copy_user_values(result.cell, folder, results.folder)


def keep_users(record: Record, results: Results, folder: Path) -> None:
    """Copy to ``folder`` what later intervals of the record need."""
    run = compared_run(record.found)
    for entry in record.found:
        if run is not None and entry.run.row == run:
            copy_user_values(entry.result.cell, results.folder, folder)
