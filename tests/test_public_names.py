from __future__ import annotations

import inspect
import re
import subprocess
import sys

import pytest

import cerp


def test_the_public_names_are_these():
    assert sorted(cerp.__all__) == [
        "Callback",
        "CerpError",
        "Compressed",
        "Config",
        "FieldLookups",
        "FittedModel",
        "Interactions",
        "Lookup",
        "Metrics",
        "Runtime",
        "Splits",
        "__version__",
        "compare",
        "compress",
        "evaluate",
        "fit",
        "fit_to_size",
        "id_leak",
        "load",
        "load_splits",
        "paired_bootstrap",
        "read",
        "report",
        "save_to_hub",
        "tune",
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


FUNCTIONS = [name for name in cerp.__all__ if inspect.isfunction(getattr(cerp, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_says_what_it_takes_and_gives(name: str):
    function = getattr(cerp, name)
    text = inspect.getdoc(function) or ""
    assert "\nParameters\n----------\n" in text
    assert "\nReturns\n-------\n" in text
    taken, _, _ = text.partition("\nReturns\n")
    for parameter in inspect.signature(function).parameters:
        assert re.search(rf"^\**(\w+, )*\**{parameter}(, \w+)*$", taken, re.MULTILINE), parameter


PUBLIC_METHODS = {
    "FittedModel": ("save",),
    "Runtime": ("recommend", "recommend_many", "recommend_for", "similar_items", "score_all"),
    "Splits": ("save",),
    "Interactions": ("split",),
}


def test_the_methods_that_people_call_do_so_too():
    for name, methods in PUBLIC_METHODS.items():
        for method in methods:
            text = inspect.getdoc(getattr(getattr(cerp, name), method)) or ""
            assert "\nParameters\n----------\n" in text, f"{name}.{method}"


def test_a_fitted_model_and_a_runtime_answer_the_same_calls():
    shared = ("recommend", "recommend_many", "recommend_for", "similar_items", "score_all")
    for name in shared:
        assert callable(getattr(cerp.FittedModel, name))
        assert callable(getattr(cerp.Runtime, name))
