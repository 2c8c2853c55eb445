"""The search for the graph filter that several runs share: done once, and read where it is kept.

exponents.json     what was found of the plain filter, and for which data, metric and seed
sharpening.json    the same of the sharpened filter
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from cerp.errors import DataError
from cerp.files import make_folder
from cerp.graph.filter import Exponents
from cerp.graph.filter_search import FilterSearch
from cerp.graph.search import FoundExponents, Trial
from cerp.graph.search_sharpening import FoundSharpening, SharpeningTrial
from cerp.graph.sharpening import Sharpening
from cerp.runs.sealed import read_sealed, write_sealed

EXPONENTS, SHARPENING = "exponents.json", "sharpening.json"

_Found = TypeVar("_Found", FoundExponents, FoundSharpening)


@dataclass(frozen=True, eq=False)
class SharedFilterSearch(FilterSearch):
    """A search whose answers are kept in a folder, for every run with the same question."""

    folder: Path

    @cached_property
    def plain(self) -> FoundExponents:
        """The exponents of the filter."""
        kept = self._kept(EXPONENTS, _found_exponents)
        return kept or self._written(EXPONENTS, super().plain)

    @cached_property
    def sharpened(self) -> FoundSharpening:
        """The same filter, sharpened."""
        kept = self._kept(SHARPENING, _found_sharpening)
        return kept or self._written(SHARPENING, super().sharpened)

    @cached_property
    def _question(self) -> dict[str, Any]:
        """All that the answers depend on."""
        fingerprint = self.splits.learning_fingerprint
        return {"fingerprint": fingerprint, "metric": self.metric, "seed": self.seed}

    def _kept(self, name: str, read: Callable[[dict[str, Any]], _Found]) -> _Found | None:
        """What was found before; None where nothing was, or for another question."""
        path = self.folder / name
        if not path.exists():
            return None
        there = read_sealed(path)
        try:
            return read(there["found"]) if there["question"] == self._question else None
        except (KeyError, TypeError) as error:
            raise DataError(
                f"{path} is not what a search writes ({type(error).__name__}: {error}); remove it, "
                "and it is searched again"
            ) from None

    def _written(self, name: str, found: _Found) -> _Found:
        make_folder(self.folder)
        write_sealed(self.folder / name, {"question": self._question, "found": asdict(found)})
        return found


def _found_exponents(values: dict[str, Any]) -> FoundExponents:
    trials = tuple(Trial(**_with_exponents(one)) for one in values["trials"])
    return FoundExponents(**{**_with_exponents(values), "trials": trials})


def _found_sharpening(values: dict[str, Any]) -> FoundSharpening:
    trials = tuple(SharpeningTrial(**_sharpened(one)) for one in values["trials"])
    return FoundSharpening(**{**_sharpened(values), "trials": trials})


def _sharpened(values: dict[str, Any]) -> dict[str, Any]:
    sharpening = values["sharpening"]
    read = None if sharpening is None else Sharpening(**sharpening)
    return {**_with_exponents(values), "sharpening": read}


def _with_exponents(values: dict[str, Any]) -> dict[str, Any]:
    return {**values, "exponents": Exponents(**values["exponents"])}
