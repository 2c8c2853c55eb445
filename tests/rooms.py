"""The rooms of the package and what they import, derived from the code."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "cerp"
TOP = "top"
"""The files beside the rooms that everything may use."""
SURFACE = ("__init__", "nn", "start")
"""What users import or run: it stands on all rooms, and no room imports it."""


def imports_of(path: Path, *, only_on_import: bool = False) -> set[str]:
    """Modules that a file imports; ``only_on_import`` leaves out functions and type checking."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if only_on_import and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return
        if only_on_import and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif not only_on_import and isinstance(node, ast.Constant) and isinstance(node.value, str):
            # Parts of a registry are named as "cerp.methods.ud:Ud" and imported later.
            module, colon, _ = node.value.partition(":")
            if colon and module.startswith("cerp.") and " " not in module:
                found.add(module)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


def room_of(module: str) -> str | None:
    """The room of ``cerp.x.y``; None for what is no module of the package."""
    parts = module.split(".")
    if parts[0] != "cerp" or len(parts) < 2:
        return None
    if (PACKAGE / parts[1]).is_dir():
        return parts[1]
    return TOP if (PACKAGE / f"{parts[1]}.py").exists() else None


def files_of(room: str) -> list[Path]:
    """The Python files of a room."""
    if room == TOP:
        return [path for path in PACKAGE.glob("*.py") if path.stem not in SURFACE]
    return sorted((PACKAGE / room).rglob("*.py"))


def room_names() -> list[str]:
    """Every folder of the package that holds code."""
    return sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def room_graph() -> dict[str, set[str]]:
    """What each room imports of the others, lazily or not."""
    graph = {}
    for room in [TOP, *room_names()]:
        modules = {module for path in files_of(room) for module in imports_of(path)}
        graph[room] = {found for module in modules if (found := room_of(module))} - {room}
    return graph
