"""A PostgreSQL of the tests' own: a new cluster in a scratch folder, reached by a socket in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

DEBIAN = Path("/usr/lib/postgresql")
USER = "cerp"


def programs() -> Path | None:
    """The folder with initdb and pg_ctl, of the newest version; None where there is none."""
    found = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    there = shutil.which("initdb")
    return Path(there).resolve().parent if there else None


@contextmanager
def postgres() -> Iterator[str]:
    """A running server, by its address; without PostgreSQL the test is skipped with a word."""
    folder = programs()
    if folder is None:
        pytest.skip("databases are read from PostgreSQL: apt-get install postgresql")
    # It does not run as root; Debian's package brings a user for it.
    owner = "postgres" if os.geteuid() == 0 else None
    # Not pytest's folder: a socket's path has at most 107 characters, and its owner must get there.
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as scratch:
        if owner:
            shutil.chown(scratch, owner, owner)

        def run(program: str, *arguments: str) -> None:
            done = subprocess.run(
                [str(folder / program), "-D", f"{scratch}/data", *arguments],
                user=owner,
                group=owner,
                cwd=scratch,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"

        run("initdb", "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        settings = f"-k {scratch} -h '' -F"  # by the socket alone, and without waiting for disks
        run("pg_ctl", "-w", "-l", f"{scratch}/log", "-o", settings, "start")
        try:
            yield f"postgresql:///postgres?host={scratch}&user={USER}"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
