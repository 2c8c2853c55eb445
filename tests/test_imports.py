"""The direction of the arrows: docs/architecture.md declares it, the code is held to it."""

from __future__ import annotations

import graphlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rooms import PACKAGE, SURFACE, TOP, files_of, imports_of, room_graph, room_names, room_of

ARCHITECTURE = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
TORCH_FREE = [TOP, "data", "evaluation", "artifact", "runtime", "server", "pages", "reports", "cli"]
POSIX_ONLY = {"fcntl", "grp", "pwd", "resource", "termios"}


# Rooms


def declared() -> dict[str, set[str]]:
    """The table of rooms, as the document has it."""
    rows = re.findall(
        r"^\| `([a-z]+)` \| [^|]+ \| ([^|]+) \| [^|]+ \|$", ARCHITECTURE, re.MULTILINE
    )
    return {room: set() if names == "-" else set(names.split(", ")) for room, names in rows}


def test_rooms_import_what_the_document_declares_and_nothing_else():
    assert room_graph() == declared()


def test_the_arrows_make_no_circle():
    assert len(list(graphlib.TopologicalSorter(room_graph()).static_order())) == len(declared())


def test_modules_import_each_other_in_no_circle_either():
    files = [path for path in PACKAGE.rglob("*.py") if path.stem not in SURFACE]
    names = {".".join(("cerp", *path.relative_to(PACKAGE).with_suffix("").parts)) for path in files}
    graph = {
        name: (imports_of(path, only_on_import=True) & names) - {name}
        for path in files
        for name in [".".join(("cerp", *path.relative_to(PACKAGE).with_suffix("").parts))]
    }
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) == len(names)


def test_the_drawing_leaves_out_only_what_follows_from_it():
    drawn = {
        (after, before) for before, after in re.findall(r"^  (\w+) --> (\w+)$", ARCHITECTURE, re.M)
    }
    reached = {room: {before for after, before in drawn if after == room} for room in declared()}
    for room in graphlib.TopologicalSorter(reached).static_order():
        reached[room] |= {further for before in reached[room] for further in reached[before]}
    graph = room_graph()
    assert drawn <= {(room, before) for room, imported in graph.items() for before in imported}
    assert all(imported <= reached[room] for room, imported in graph.items())


def test_no_room_imports_what_users_import():
    surface = {f"cerp.{name}" for name in SURFACE}
    for room in [TOP, *room_names()]:
        for path in files_of(room):
            assert not imports_of(path) & surface, path


def test_a_circle_and_an_undeclared_arrow_would_be_seen(tmp_path: Path):
    path = tmp_path / "late.py"
    path.write_text("def later():\n    from cerp.cli.output import print_json\n")
    assert {room_of(module) for module in imports_of(path)} == {"cli"}
    path.write_text('PARTS = {"ud": "cerp.methods.ud:Ud"}\n')
    assert imports_of(path) == {"cerp.methods.ud"}


# What serves needs no torch


@pytest.mark.parametrize("room", TORCH_FREE)
def test_the_serving_side_imports_no_torch_at_module_level(room: str):
    for path in files_of(room):
        modules = imports_of(path, only_on_import=True)
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


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.name)
def test_nothing_that_windows_lacks_is_imported_at_module_level(path: Path):
    assert imports_of(path, only_on_import=True) & POSIX_ONLY == set()


def test_only_training_steps_an_optimizer():
    stepping = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "optimizer.step(" in path.read_text(encoding="utf-8")
    ]
    assert stepping == ["training/loop.py"]
