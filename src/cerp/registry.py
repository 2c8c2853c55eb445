"""What can be chosen by name: cerp's own parts, and those of other packages.

A package adds a part by an entry point: in its ``pyproject.toml``,

    [project.entry-points."cerp.backbones"]
    mine = "my_package.my_backbone:MyBackbone"

It is imported when it is asked for by name, in every process that asks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, TypeVar

from cerp.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_Part = TypeVar("_Part")
_Given = TypeVar("_Given")


class Registry(Generic[_Part]):
    """Parts of one kind, by name.

    Parameters
    ----------
    kind
        What a part is called in messages, such as ``"backbone"``.
    group
        The group of entry points, such as ``"cerp.backbones"``.
    own
        Where cerp's own parts are, such as ``{"mf": "cerp.models.backbones.mf:MF"}``: imported
        when they are asked for, as those of other packages are.

    """

    def __init__(self, kind: str, group: str, own: Mapping[str, str] | None = None) -> None:
        self.kind, self.group = kind, group
        self._own = dict(own or {})
        self._parts: dict[str, _Part] = {}

    def add(self, name: str, part: _Part) -> None:
        """Make a part known; a name is given once, and before what other packages offer."""
        if name in self._parts or name in self._own:
            raise ConfigError(f"there is a {self.kind} {name!r} already; choose another name")
        self._parts[name] = part

    def register(self, name: str) -> Callable[[_Given], _Given]:
        """Class or function decorator that makes a part known by name."""

        def enter(part: _Given) -> _Given:
            self.add(name, part)  # type: ignore[arg-type]
            return part

        return enter

    def names(self) -> list[str]:
        """All there are, sorted."""
        return sorted({*self._parts, *self._places()})

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def is_own(self, name: str) -> bool:
        """Whether it is one of cerp's own."""
        return name in self._own

    def __contains__(self, name: object) -> bool:
        return name in self._parts or name in self._own or name in self._places()

    def __getitem__(self, name: str) -> _Part:
        """The part called ``name``; a `ConfigError` lists all names where there is none."""
        if name not in self._parts:
            found = self._own_places().get(name) or self._places().get(name)
            if found is None:
                _installed.cache_clear()  # a notebook may have installed a package since
                found = self._places().get(name)
            if found is None:
                raise ConfigError(
                    f"unknown {self.kind} {name!r}; choose one of {', '.join(self.names())}"
                )
            self._parts[name] = self._loaded(found)
        return self._parts[name]

    def _loaded(self, entry: EntryPoint) -> _Part:
        try:
            part: _Part = entry.load()
        except Exception as error:  # whatever a package does while it is imported
            if entry.name in self._own:
                raise
            raise ConfigError(
                f"the {self.kind} {entry.name!r} of the package {entry.value!r} cannot be imported "
                f"({type(error).__name__}: {error}); repair that package, or remove it"
            ) from error
        return part

    def _places(self) -> dict[str, EntryPoint]:
        """Where parts can be imported from; a package cannot replace one of cerp's own."""
        installed = {entry.name: entry for entry in _installed(self.group, tuple(sys.path))}
        return {**installed, **self._own_places()}

    def _own_places(self) -> dict[str, EntryPoint]:
        from importlib.metadata import EntryPoint  # imports a lot, which serving does without

        return {name: EntryPoint(name, place, self.group) for name, place in self._own.items()}


@lru_cache(maxsize=64)
def _installed(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """What other packages offer; looking at them all takes milliseconds, so it is done once."""
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))
