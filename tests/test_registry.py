"""Parts by name: those of cerp, those of other packages, and those that are not there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cerp.errors import ConfigError
from cerp.registry import Registry


def package(folder: Path, module: str, entry: str) -> None:
    """A package as pip leaves it: a module, and metadata with an entry point."""
    (folder / "other_package.py").write_text(module)
    info = folder / "other_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[cerp.shapes]\n{entry}\n")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "other_package", raising=False)
    return tmp_path


def shapes() -> Registry[object]:
    return Registry("shape", "cerp.shapes", {"ordered": "collections:OrderedDict"})


def test_own_parts_are_imported_when_they_are_asked_for():
    from collections import OrderedDict

    assert shapes()["ordered"] is OrderedDict
    assert shapes().names() == list(shapes()) == ["ordered"]
    assert "ordered" in shapes()
    assert "square" not in shapes()


def test_a_part_can_be_registered_once():
    registry = shapes()

    @registry.register("round")
    class Round: ...

    assert registry["round"] is Round
    for name in ("round", "ordered"):
        with pytest.raises(ConfigError, match=f"there is a shape '{name}' already"):
            registry.add(name, Round)


def test_a_registered_part_comes_before_that_of_a_package(installed: Path):
    package(installed, "class Square: pass", "square = other_package:Square")
    registry = shapes()
    registry.add("square", "mine")
    assert registry["square"] == "mine"


def test_a_package_that_is_installed_meanwhile_is_found(installed: Path):
    registry = shapes()
    assert registry.names() == ["ordered"]
    package(installed, "class Square: pass", "square = other_package:Square")
    assert registry["square"].__name__ == "Square"  # type: ignore[attr-defined]


def test_a_part_of_another_package_is_found(installed: Path):
    package(installed, "class Square: pass", "square = other_package:Square")
    registry = shapes()
    assert registry.names() == ["ordered", "square"]
    assert "other_package" not in sys.modules
    assert registry["square"].__name__ == "Square"  # type: ignore[attr-defined]


def test_a_package_cannot_take_the_place_of_an_own_part(installed: Path):
    package(installed, "class Square: pass", "ordered = other_package:Square")
    assert shapes()["ordered"].__name__ == "OrderedDict"  # type: ignore[attr-defined]


def test_a_package_that_cannot_be_imported_is_named(installed: Path):
    package(installed, "raise RuntimeError('no luck')", "square = other_package:Square")
    with pytest.raises(ConfigError, match=r"the shape 'square' of the package .*no luck"):
        shapes()["square"]


def test_an_unknown_name_is_refused_with_those_there_are():
    with pytest.raises(ConfigError, match="unknown shape 'cube'; choose one of ordered"):
        shapes()["cube"]
