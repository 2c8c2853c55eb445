"""Methods whose model is of items alone: each budget has a search of its own."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol

from cerp.data.ids import Float32Array
from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.graph.history_sums import SummedItems
from cerp.graph.item_models import ItemModel
from cerp.methods.base import Context, Method
from cerp.models.embeddings.base import Embedding
from cerp.training.search_result import Found


class Room(Protocol):
    """What the run knows of a limit, and of the filter that may be beside the model."""

    def fullness(self, model: ItemModel) -> float:
        """The share of the limit that a model takes; at most 1 fits."""

    def as_filed(self, model: SummedItems) -> Float32Array:
        """The vectors of items that a file of the model has, rounded."""

    def beside_filter(self, model: SummedItems) -> dict[str, Any]:
        """What validation says of the graph filter beside the model, under ``mixture``.

        Nothing, where that was not asked for.
        """


class ItemMethod(Method):
    """A method that finds an `ItemModel`: nothing is trained, validation chooses."""

    has_vectors = False
    can_be_mixed = False
    is_trained = False
    is_parallel = False

    @abstractmethod
    def smallest(self, splits: Splits) -> ItemModel:
        """What takes the fewest bytes of all that could be found."""

    def check(self, splits: Splits) -> None:
        """Refuse data that it is not possible for, before anything is searched."""

    @abstractmethod
    def find(self, context: Context, final: Splits, room: Room, most: int) -> Found:
        """What fills a limit and what validation likes best.

        Parameters
        ----------
        context
            The data that validation chooses on.
        final
            The data that the model is made of in the end: more after a refit.
        room
            What fits, and what a file has.
        most
            No more values than these can fit.

        """

    @abstractmethod
    def model_of(self, found: Found) -> ItemModel:
        """The model that a search found."""

    def embedding(self, context: Context, limit: int, found: Found) -> Embedding:
        """Never asked for: a run looks at `has_vectors` first."""
        raise ConfigError("a method of items alone has no vectors of users, so no embedding either")
