from __future__ import annotations

import subprocess
import sys

import pytest

import cerp


def test_the_public_names_are_these():
    assert sorted(cerp.__all__) == [
        "CerpError",
        "Config",
        "FittedModel",
        "Interactions",
        "Metrics",
        "Runtime",
        "Splits",
        "__version__",
        "evaluate",
        "fit",
        "id_leak",
        "load",
        "load_splits",
        "paired_bootstrap",
        "read",
    ]


@pytest.mark.parametrize("name", cerp.__all__)
def test_every_public_name_can_be_had_and_is_documented(name: str):
    assert getattr(cerp, name).__doc__


def test_the_embedding_for_other_models_needs_no_import_of_its_own():
    code = "import cerp; cerp.nn.CompositionalEmbedding"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'reed'"):
        _ = cerp.reed


def test_importing_cerp_imports_none_of_its_dependencies():
    code = "import sys, cerp; sys.exit(bool({'numpy', 'torch', 'typer'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_version_is_in_the_changelog():
    from pathlib import Path

    changelog = (Path(__file__).parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {cerp.__version__}" in changelog
