"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def shared_data() -> Callable[[str], Path]:
    """Real data of others, which is never in the repository: ``shared_data('ml-100k')``."""

    def folder(name: str) -> Path:
        root = os.environ.get("CERP_DATA_DIR")
        if not root:
            pytest.skip("CERP_DATA_DIR is not set")
        path = Path(root).resolve() / name
        if not path.is_dir():
            pytest.skip(f"CERP_DATA_DIR has no {name}")
        return path

    return folder
