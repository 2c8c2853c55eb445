"""What every backbone offers, and the registry that finds it by name.

A backbone turns embedding vectors into scores. Entities are users first, then
items: the entity of item i is ``num_users + i``.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from cerp.choices import Head
from cerp.data.ids import Int32Array
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError
from cerp.models import BACKBONES
from cerp.models.embeddings.base import Embedding


class BatchVectors(NamedTuple):
    """The embedding vectors of a batch, as a penalty looks at them.

    Each distinct user of the batch counts once, and each item as often as it was drawn.
    """

    blocks: tuple[Tensor, ...]
    """(n, d) in blocks of columns, often one: embedding vectors e_k, before any propagation."""
    counts: Tensor
    """(n,): how often each of them counts, w_k."""


class BatchOutput(NamedTuple):
    """What the objective needs of one batch of B users with m items each."""

    scores: Tensor
    """(B, m): score of ``items[b, j]`` for ``users[b]``."""
    vectors: Callable[[], BatchVectors] | None = None
    """What a penalty looks at, computed when a penalty asks for it; None: nothing can be
    penalised."""
    complementary: Callable[[float], Tensor] | None = None
    """The usual penalty at a temperature, where a backbone has a shorter way to it than vectors."""


class TorchScorer(Protocol):
    """A model made ready for ranking the whole catalogue; see `cerp.evaluation.evaluate.Scorer`."""

    def score_all(self, users: Int32Array) -> Tensor:
        """Scores of every item, (len(users), num_items)."""


class Backbone(nn.Module):
    """Scores of user-item pairs from their embedding vectors.

    Subclasses take the arguments below and add keyword options of their own.
    A backbone learns of the data no more than ``train`` says; its own weights
    come from ``generator``.
    """

    capturable: bool = False
    """Whether `forward` and its gradient can be recorded as a CUDA graph: they never wait for
    the device, and no shape depends on values."""

    head: ClassVar[Head | None] = None
    """How a model file scores two final vectors: by their ``dot`` product, or by the ``tower``
    of this backbone's weights. None: a file cannot hold this backbone."""

    needs_graph: ClassVar[bool] = False
    """Whether a model file must hold the training graph, to propagate vectors over it."""

    layers: int = 0
    """How often vectors are propagated over the training graph before they are final."""

    def __init__(
        self,
        train: Interactions,
        *,
        embedding_dim: int,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.num_users, self.num_items = train.num_users, train.num_items
        self.embedding_dim = embedding_dim

    @abstractmethod
    def forward(self, embedding: Embedding, users: Tensor, items: Tensor) -> BatchOutput:
        """Scores of a training batch: user codes (B,) against item codes (B, m)."""

    @abstractmethod
    def scorer(self, embedding: Embedding) -> TorchScorer:
        """A scorer of the whole catalogue, valid until a weight changes.

        What belongs to an item is computed here, once; what belongs to a user
        when the user is scored.
        """

    def entity_values(self) -> int:
        """How many of the backbone's own values belong to single users or items: a budget counts
        them as it counts the embedding's.

        Unless a subclass knows better, those of parameters with a row for each user, each item or
        each entity, such as a bias per item.
        """
        sizes = {self.num_users, self.num_items, self.num_users + self.num_items}
        own = (one for one in self.parameters() if one.ndim and len(one) in sizes)
        return sum(one.numel() for one in own)

    def shipped_weights(self) -> dict[str, Tensor]:
        """The backbone's own weights as a model file has them; `load_state_dict` takes them."""
        weights: dict[str, Tensor] = self.state_dict()
        return weights

    def entities(self, users: Tensor, items: Tensor) -> Tensor:
        """The entities of a batch in one row, users before items: (B + B·m,)."""
        return torch.cat([users, items.flatten() + self.num_users])

    def item_vectors(self, embedding: Embedding) -> Tensor:
        """The embedding vectors of all items, in order."""
        device = next(embedding.parameters()).device
        last = self.num_users + self.num_items
        vectors: Tensor = embedding(torch.arange(self.num_users, last, device=device))
        return vectors


class DotScorer:
    """``score(u, i) = ⟨v_u, v_i⟩``"""

    def __init__(self, user_vectors: Callable[[Tensor], Tensor], item_vectors: Tensor) -> None:
        self.user_vectors, self.item_vectors = user_vectors, item_vectors

    @torch.no_grad()
    def score_all(self, users: Int32Array) -> Tensor:
        """Scores of every item, (len(users), num_items)."""
        codes = user_codes(users, self.item_vectors.device)
        return self.user_vectors(codes) @ self.item_vectors.T


def user_codes(users: Int32Array, device: torch.device) -> Tensor:
    """Codes as an index tensor; the array may be read-only."""
    return torch.tensor(users, dtype=torch.int64, device=device)


def gathered(users: Tensor, vectors: Tensor) -> BatchVectors:
    """Vectors that were looked up for a batch: those of the B users, then those of the items.

    A user who occurs c times in the batch counts 1/c in each place, so that
    the places together count once; every item counts 1.
    """
    # Unlike torch.unique, nothing here makes a GPU wait for the host to learn a size.
    ordered = users.sort().values
    last, first = (torch.searchsorted(ordered, users, right=right) for right in (True, False))
    counts = vectors.new_ones(len(vectors))
    counts[: len(users)] /= last - first
    return BatchVectors((vectors,), counts)


_Registered = TypeVar("_Registered", bound=type[Backbone])


def register(name: str) -> Callable[[_Registered], _Registered]:
    """Class decorator that makes a backbone known by name."""
    return BACKBONES.register(name)


def names() -> list[str]:
    """The backbones there are."""
    return BACKBONES.names()


def create(
    name: str,
    train: Interactions,
    *,
    embedding_dim: int,
    generator: torch.Generator | None = None,
    reference_dim: int | None = None,
    **options: Any,
) -> Backbone:
    """A fresh backbone by name; ``options`` are its own, such as ``layers=3``.

    ``reference_dim`` is for backbones with networks: those of vectors that are shorter
    than it, as a method may have them, are as wide as if they had this dimension.
    """
    own = _own_options(name)
    if reference_dim is not None and "reference_dim" in own:
        options.setdefault("reference_dim", reference_dim)
    check(name, options)
    return BACKBONES[name](train, embedding_dim=embedding_dim, generator=generator, **options)


def check(name: str, options: Mapping[str, Any]) -> None:
    """Refuse a backbone that is not there, or options that it does not have."""
    own = _own_options(name)
    for option in options:
        if option not in own:
            known = ", ".join(sorted(own)) or "none"
            raise ConfigError(f"backbone {name!r} has no option {option!r}; its options: {known}")


def _own_options(name: str) -> set[str]:
    return inspect.signature(BACKBONES[name]).parameters.keys() - _COMMON


_COMMON = inspect.signature(Backbone).parameters.keys()
