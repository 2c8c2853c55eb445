"""What every compression method does in a run: search, if it has to, then an embedding to train.

A run asks a method for two things. `search` finds out what to keep for each
budget (which entries, which sizes) and leaves it as named tensors; most
methods have nothing to search. `embedding` makes a fresh embedding of what was
found, which the run then trains, whatever the method, with the same loop.

A method's own settings are the keyword arguments of its class, with defaults;
`Config.method_options` gives them by name.
"""

from __future__ import annotations

import importlib.util
import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from cerp.assignment.codes import Codes
from cerp.budget import Budget
from cerp.config import Config, RunOptions
from cerp.data.ids import Float32Array, Int32Array, Int64Array
from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.graph.filter_search import FilterSearch
from cerp.models import backbones
from cerp.models.backbones import Backbone
from cerp.models.embeddings.base import Embedding
from cerp.models.recommender import Recommender
from cerp.training.distributed import world_size
from cerp.training.loop import Checkpointing, StageHooks
from cerp.training.search_result import Found

CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True, eq=False)
class Context:
    """What a method may know of its run."""

    splits: Splits
    config: Config
    options: RunOptions
    limits: tuple[int, ...]
    """All budgets of the run, in values."""
    positions: Int32Array | None = None
    """Where each entity stands in the chosen order; None: where its id says."""
    codes: Int32Array | None = None
    """(N, m): the learned row of each entity in each codebook; None: a hash chooses, or codes
    are not known yet."""
    rows: Float32Array | None = None
    """(m, K, d): values that the rows of learned codes start from; None: random ones."""
    teacher: Float32Array | None = None
    """(N, d): the final vectors of a teacher; None: there is none."""
    given_filter_search: FilterSearch | None = None
    """One that is there already, such as that of other runs; None: `filter_search` makes one."""

    @cached_property
    def filter_search(self) -> FilterSearch:
        """The graph filter that validation likes best, searched once however often it is asked."""
        if self.given_filter_search is not None:
            return self.given_filter_search
        config = self.config
        return FilterSearch(
            self.splits, config.selection_metric, config.seed, quiet=self.options.quiet
        )

    @property
    def device(self) -> torch.device:
        """Where training happens."""
        return torch.device(self.options.device)

    @property
    def degrees(self) -> Int64Array:
        """How often each entity occurs in training, users first."""
        train = self.splits.train
        return np.concatenate([np.diff(train.user_offsets), train.item_counts])

    @property
    def limits_bytes(self) -> bool:
        """Whether a budget, or the file, is limited in bytes."""
        config = self.config
        sizes = (Budget.parse(budget).size for budget in config.budgets)
        return config.max_file_size is not None or any(size is not None for size in sizes)

    def generator(self) -> torch.Generator:
        """Fresh randomness for an embedding: the same whenever it is asked for."""
        return torch.Generator().manual_seed(self.config.seed)

    def with_limits(self, *limits: int) -> Context:
        """The same run with other budgets."""
        return replace(self, limits=limits)

    def backbone(self, embedding_dim: int) -> Backbone:
        """A fresh backbone for vectors of a length."""
        return backbones.create(
            self.config.backbone,
            self.splits.train,
            embedding_dim=embedding_dim,
            generator=torch.Generator().manual_seed(self.config.seed + 1),
            **{"reference_dim": self.config.dim, **self.config.backbone_options},
        )

    def recommender(self, embedding: Embedding) -> Recommender:
        """The embedding joined to a fresh backbone, on the device."""
        backbone = self.backbone(embedding.embedding_dim)
        return Recommender(embedding, backbone).to(self.device)

    def checkpointing(self, stage: str) -> Checkpointing | None:
        """Where a stage saves itself, if the run has a folder."""
        folder = self.options.folder
        if folder is None:
            return None
        return Checkpointing(folder / CHECKPOINT, stage, self.options.checkpoint_seconds)


class Search(NamedTuple):
    """What a search leaves."""

    found: dict[int, Found]
    """By budget."""
    history: list[dict[str, float]]
    """The curves of its training, a row per epoch; empty where nothing was searched."""


class Method(ABC):
    """One way to keep an embedding within a budget."""

    has_vectors: bool = True
    """Whether there is an embedding to train; one without is ready after its search."""

    can_be_mixed: bool = True
    """Whether there are vectors that the graph filter can be put beside."""

    has_budget: bool = True
    """Whether a budget limits what is stored; a method that stores no values keeps every one."""

    learns_rows: bool = False
    """Whether it has codebooks whose rows can be learned: `codes` then gives them where
    ``Config.assignment`` is ``learned``."""

    is_ordered: bool = False
    """Whether vectors depend on the order of ids, so that `Config.ordering` matters."""

    search_stage: str = "search"
    """What the search is called in curves and checkpoints."""

    is_trained: bool = True
    """Whether its vectors are trained by steps; else `solved` gives them."""

    only_backbone: str | None = None
    """The backbone that it goes with; None: any."""

    package: tuple[str, str] | None = None
    """A package that it needs, and the extra of cerp that installs it; None: none."""

    is_parallel: bool = True
    """Whether processes can share the batches, so that several give what one gives."""

    @classmethod
    def option_names(cls) -> set[str]:
        """The method's own settings."""
        return set(inspect.signature(cls).parameters)

    def codes(self, context: Context) -> Codes | None:
        """Rows learned from data for the largest of the context's limits; None: there are none."""
        return None

    @classmethod
    def refuse_processes(cls, name: str) -> None:
        """Refuse to be shared by several processes, where that gives another result."""
        if world_size() > 1 and not cls.is_parallel:
            raise ConfigError(
                f"method {name!r} cannot share its batches among processes; start it without "
                "torchrun"
            )

    def search(self, context: Context) -> Search:
        """What to keep for each of the context's limits; nothing, where nothing is searched."""
        return Search({limit: Found({}, {}) for limit in context.limits}, [])

    @abstractmethod
    def embedding(self, context: Context, limit: int, found: Found) -> Embedding:
        """A fresh embedding of at most ``limit`` values, ready to be trained."""

    def solved(self, context: Context, found: Found) -> Float32Array:
        """The vectors of all entities, of a method that is not trained."""
        raise NotImplementedError(f"the vectors of {type(self).__name__} are trained")

    def source(self, context: Context) -> Embedding | None:
        """What is trained in the embedding's place, for `compress` to make the embedding from.

        None: the embedding itself is trained.
        """
        return None

    def compress(self, context: Context, source: Embedding, kept: Embedding) -> None:
        """Write what was trained into the embedding that is kept, where there is a `source`."""
        raise NotImplementedError(f"the embedding of {type(self).__name__} is trained as it is")

    def folding(self, found: Found) -> dict[str, float] | None:
        """α and λ, where someone new is folded in by the least squares of ALS; None: elsewhere.

        Nothing found yet: numbers that take as many characters as any.
        """
        return None

    @classmethod
    def is_installed(cls) -> bool:
        """Whether the package that it needs is there."""
        return cls.package is None or importlib.util.find_spec(cls.package[0]) is not None

    def placeholder(self, context: Context, limit: int) -> Embedding:
        """An untrained embedding whose tables have the size of a trained one's.

        Where a limit in bytes is given, it says what fits, before anything is searched. A method
        whose `embedding` reads what its search has found says here what that would look like.
        """
        try:
            return self.embedding(context, limit, Found({}, {}))
        except KeyError as error:
            raise ConfigError(
                f"the method {context.config.method!r} cannot be measured before its search: its "
                f"embedding reads {error} of what is found; give {type(self).__name__} a "
                "placeholder(context, limit), or a budget in values such as '99%'"
            ) from None

    def hooks(self, context: Context, model: Recommender) -> StageHooks:
        """What happens around the steps of training."""
        return StageHooks()
