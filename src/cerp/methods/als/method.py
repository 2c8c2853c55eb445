"""ALS as a method: its settings are searched, and then its vectors are ready."""

from __future__ import annotations

from dataclasses import asdict

from cerp.data.ids import Float32Array
from cerp.methods.als.search import AlsSearch
from cerp.methods.als.solver import AlsSettings, als_vectors
from cerp.methods.base import Context, Method, Search
from cerp.methods.ud import UniformEmbedding
from cerp.models.embeddings.base import Embedding
from cerp.models.embeddings.full import FullEmbedding
from cerp.progress import progress
from cerp.training.search_result import Found

LONG_NUMBER = 1234.5


class Als(Method):
    """``score(u, i) = ⟨x_u, y_i⟩`` with the vectors of implicit ALS (`cerp.methods.als.solver`).

    Rank, regularisation, α and iterations are those that ``Config.selection_metric`` likes best
    on validation; the rank is at most ``Config.dim``, and what the limit has room for. There is no
    training beside it, and the one table of users and items is that of matrix factorisation.
    """

    only_backbone = "mf"
    package = ("implicit", "als")
    is_parallel = False
    is_trained = False

    def search(self, context: Context) -> Search:
        """The best settings for each limit."""
        config, splits = context.config, context.splits
        metric, found = config.selection_metric, {}
        with progress("als", quiet=context.options.quiet) as bar:
            search = AlsSearch(splits, metric, config.seed, bar)
            for limit in dict.fromkeys(context.limits):
                best = search.best(min(limit // splits.num_entities, config.dim))
                facts = {
                    **asdict(best.settings),
                    f"valid_{metric}": best.score,
                    "trials": best.trials,
                }
                found[limit] = Found({}, facts)
        return Search(found, [])

    def embedding(self, context: Context, limit: int, found: Found) -> Embedding:
        """A table of the rank that was found."""
        rank = settings_of(found).rank
        return FullEmbedding(context.splits.num_entities, rank, generator=context.generator())

    def placeholder(self, context: Context, limit: int) -> Embedding:
        """A table of the largest rank that there is room for."""
        return UniformEmbedding.for_limit(
            context.splits.num_entities, context.config.dim, limit, generator=context.generator()
        )

    def solved(self, context: Context, found: Found) -> Float32Array:
        """Of the context's training part."""
        return als_vectors(context.splits.train, settings_of(found), context.config.seed)

    def folding(self, found: Found) -> dict[str, float]:
        """By what the vectors were solved with."""
        names = ("alpha", "regularization")
        return {name: float(found.facts.get(name, LONG_NUMBER)) for name in names}


def settings_of(found: Found) -> AlsSettings:
    """The settings that a search left."""
    names = AlsSettings.__dataclass_fields__
    return AlsSettings(**{name: found.facts[name] for name in names})
