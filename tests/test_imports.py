"""The import rules of docs/architecture.md."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "cerp"
TORCH_FREE = ["data", "cli", "evaluation", "progress", "errors"]
TORCH_FREE += ["artifact", "budget", "config", "files", "presets", "runtime", "server", "report"]


def imports(path: Path, *, only_on_import: bool) -> set[str]:
    """Modules that a file imports; ``only_on_import`` leaves out functions and type checking."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if only_on_import and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


def files_of(room: str) -> list[Path]:
    folder = PACKAGE / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{room}.py"]


@pytest.mark.parametrize("room", TORCH_FREE)
def test_the_serving_side_imports_no_torch_at_module_level(room: str):
    for path in files_of(room):
        modules = imports(path, only_on_import=True)
        assert not {name for name in modules if name.partition(".")[0] == "torch"}, path


def test_importing_every_torch_free_module_leaves_torch_alone():
    modules = [
        ".".join(("cerp", *path.relative_to(PACKAGE).with_suffix("").parts))
        for room in TORCH_FREE
        for path in files_of(room)
        if path.name not in ("__init__.py", "__main__.py")
    ]
    code = f"import importlib, sys; [importlib.import_module(m) for m in {modules}]; "
    code += "sys.exit('torch' in sys.modules or 'duckdb' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["fit", "nn"])
def test_without_torch_the_extra_is_named(name: str):
    code = f"import sys; sys.modules['torch'] = None; import cerp; cerp.{name}"
    found = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    last = found.stderr.decode().splitlines()[-1]
    assert last.startswith(f"cerp.errors.MissingExtra: cerp.{name} needs the package 'torch'")
    assert last.endswith("pip install 'cerp[train]'")


POSIX_ONLY = {"fcntl", "grp", "pwd", "resource", "termios"}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.name)
def test_nothing_that_windows_lacks_is_imported_at_module_level(path: Path):
    assert imports(path, only_on_import=True) & POSIX_ONLY == set()


def test_evaluation_knows_scores_and_ids_but_no_models():
    allowed = {
        "cerp.data.ids",
        "cerp.data.interactions",
        "cerp.data.splits",
        "cerp.errors",
        "cerp.evaluation.metrics",
        "cerp.evaluation.popularity",
        "cerp.evaluation.ranking",
    }
    modules = imports(PACKAGE / "evaluation" / "evaluate.py", only_on_import=False)
    assert {name for name in modules if name.startswith("cerp")} <= allowed


def test_data_knows_nothing_of_what_comes_after_it():
    allowed = ("cerp.data", "cerp.errors", "cerp.files", "cerp.progress", "cerp.registry")
    for path in files_of("data"):
        ours = {name for name in imports(path, only_on_import=False) if name.startswith("cerp")}
        assert not {name for name in ours if not name.startswith(allowed)}, path


def test_only_training_steps_an_optimizer():
    stepping = [
        path.name
        for path in PACKAGE.rglob("*.py")
        if "optimizer.step(" in path.read_text(encoding="utf-8")
    ]
    assert set(stepping) <= {"loop.py"}
