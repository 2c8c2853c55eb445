"""The filter that validation likes best, plain and sharpened: searched when first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from cerp.data.splits import Splits
from cerp.graph.search import FoundExponents, search_exponents
from cerp.graph.search_sharpening import FoundSharpening, search_sharpening


@dataclass(frozen=True, eq=False)
class FilterSearch:
    """A question to the validation part, and its answers."""

    splits: Splits
    metric: str
    """What decides, a key of `Metrics.mean`."""
    seed: int
    """Draws the users who judge a trial."""
    quiet: bool
    """No bar."""

    @cached_property
    def plain(self) -> FoundExponents:
        """The exponents of the filter."""
        return search_exponents(self.splits, metric=self.metric, seed=self.seed, quiet=self.quiet)

    @cached_property
    def sharpened(self) -> FoundSharpening:
        """The same filter, sharpened; the search starts from the plain one's exponents."""
        return search_sharpening(self.splits, self.plain, seed=self.seed, quiet=self.quiet)
