"""What is said in more than one file of the project, is said alike."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import cerp

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CI = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_every_package_that_is_asked_for_is_pinned_for_ci():
    asked = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    names = {re.split(r"[\[>]", requirement)[0] for group in asked for requirement in group}
    assert names - {"cerp"} - pinned().keys() == set()


def test_pre_commit_runs_the_tools_of_ci():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r'"ruff==(.*?)"', hooks)) == {pinned()["ruff"]}


def test_ci_runs_every_python_version_that_is_claimed():
    claimed = re.findall(r"Python :: (3\.\d+)", str(PROJECT["classifiers"]))
    (everything,) = re.findall(r"name: all tests.*?python: \[(.*?)\]", CI, re.DOTALL)
    assert re.findall(r'"(.*?)"', everything) == claimed
    assert PROJECT["requires-python"] == f">={claimed[0]}"


@pytest.mark.parametrize("name", ["ci.yml", "publish.yml"])
def test_actions_of_others_are_pinned_to_a_version(name: str):
    workflow = (ROOT / ".github/workflows" / name).read_text(encoding="utf-8")
    used = re.findall(r"uses: \S+?@(\S+)", workflow)
    assert used
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+", version) for version in used)


def test_ci_names_only_folders_that_there_are():
    for folder in re.findall(r"\btests/[\w./]+", CI):
        assert (ROOT / folder).exists(), folder


def test_the_citation_is_of_this_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {cerp.__version__}\n" in citation
    assert PROJECT["urls"]["Paper"] in citation


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_of_documents_lead_to_files(path: Path):
    links = re.findall(r"\]\((?!https?://)([^)#]+)", path.read_text(encoding="utf-8"))
    missing = [link for link in links if not (path.parent / link).exists()]
    assert missing == []


def test_the_site_shows_every_document():
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    shown = re.findall(r"'([\w-]+\.md)'", str(site["nav"]))
    assert sorted(shown) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_the_reference_has_every_public_name_once():
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    public = [f"cerp.{name}" for name in cerp.__all__ if name != "__version__"]
    modules = [f"cerp.nn.{name}" for name in cerp.nn.__all__]
    documented = [getattr(cerp.nn, name).__doc__ for name in cerp.nn.__all__]
    # Whose docstring has the arguments of a public class is in the reference beside it.
    bases = re.findall(r"`(cerp\.\S+)` says what its arguments are", "\n".join(documented))
    assert len(bases) == 2
    shown = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    assert sorted(shown) == sorted(public + modules + bases)


def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) < 120
