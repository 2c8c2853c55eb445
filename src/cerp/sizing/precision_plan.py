"""Which ways of writing a model are worth training for a budget.

A limit on values leaves no choice. A limit on bytes does: coarser values leave
room for more of them. So each precision is a candidate with as many values as
then fit, all are trained, and validation decides.
"""

from __future__ import annotations

from dataclasses import dataclass

from cerp.artifact import Encoding, ValuesCodec
from cerp.budget import SMALLEST_LIMIT, Budget, parse_size
from cerp.config import Config
from cerp.data.splits import Splits
from cerp.errors import BudgetError, ConfigError
from cerp.export.size_limit import SizeLimit
from cerp.export.to_arrays import composed
from cerp.methods.base import Context, Method
from cerp.models import BACKBONES
from cerp.sizing.file_overhead import bytes_beside_embedding, tables_of
from cerp.sizing.size_search import SizeSearch

FULL = "full"
"""The budget of a model that is not compressed."""
NONE = "none"
"""The budget of a model without vectors, which stores no values."""
PRECISIONS: tuple[ValuesCodec, ...] = ("fp16", "int8", "int4")
"""What is tried under a limit on bytes; fp32 would halve the number of values for nothing."""


@dataclass(frozen=True)
class Candidate:
    """One way to meet a budget."""

    limit: int
    """In values."""
    encoding: Encoding
    size: SizeLimit


def value_limit(splits: Splits, config: Config, budget: str) -> int | None:
    """The values that a budget allows; None where it limits bytes."""
    if budget == FULL:
        return splits.num_entities * config.dim
    parsed = Budget.parse(budget)
    return None if parsed.size else parsed.limit(splits.num_entities, config.dim)


def entity_values(context: Context) -> int:
    """Values of a backbone that belong to single users or items; cerp's own have none."""
    name = context.config.backbone
    if BACKBONES.is_own(name):
        return 0
    return context.backbone(context.config.dim).entity_values()


def _within(limit: int, budget: str, taken: int) -> int:
    """What a limit on values leaves to the embedding, where the backbone takes some."""
    if taken and limit - taken < SMALLEST_LIMIT:
        raise BudgetError(
            f"budget {budget!r} allows {limit:,} values, and the backbone alone has {taken:,} that "
            f"belong to users or items; allow at least {taken + SMALLEST_LIMIT:,}"
        )
    return limit - taken


def precision_plan(method: Method, context: Context, budget: str) -> list[Candidate]:
    """What to train for a budget, each with the values that it has room for."""
    config = context.config
    limit = value_limit(context.splits, config, budget)
    if limit is not None and budget != FULL:
        limit = _within(limit, budget, entity_values(context))
    size = SizeLimit(
        None if budget == FULL else Budget.parse(budget).size,
        None if config.max_file_size is None else parse_size(config.max_file_size),
    )
    if size != SizeLimit() and BACKBONES[config.backbone].head is None:
        raise ConfigError(
            f"a model file cannot hold the backbone {config.backbone!r}, so that no limit in bytes "
            "can be met; give a budget in values such as '99%', or say by the class's head that "
            "it scores by a 'dot' product or a 'tower'"
        )
    if size == SizeLimit():
        assert limit is not None
        if config.value_precision is not None or config.item_only:
            # Refused now, not after training.
            composed(method.placeholder(context.with_limits(limit), limit))
        return [Candidate(limit, _encoding(config, config.value_precision or "fp32"), size)]
    most = context.splits.num_entities * config.dim if limit is None else limit
    search, typical = SizeSearch(method, context), 0
    if size.file is not None:
        typical = max(context.splits.num_entities * config.dim // 10, search.smallest)
        search = SizeSearch(method, context, tables=len(tables_of(method, context, typical).tables))
    rooms = _rooms(method, context, size, search, typical)
    limits = [0] * len(rooms)
    for _ in range(2):  # the largest limit decides on the buckets, and those on all limits
        limits = [
            min(
                most,
                search.largest_limit(room, encoding.values, loosest=max(limits), near=limit),
            )
            for limit, (encoding, room) in zip(limits, rooms, strict=True)
        ]
    return [
        Candidate(limit, encoding, size) for limit, (encoding, _) in zip(limits, rooms, strict=True)
    ]


def _encoding(config: Config, values: ValuesCodec) -> Encoding:
    if BACKBONES[config.backbone].needs_graph and not config.store_seen:
        raise ConfigError(
            f"a {config.backbone} file holds the training graph, which is what users have seen; "
            "leave out store_seen=False, and export propagated tables without it afterwards: "
            "graph=tables store_seen=False"
        )
    return Encoding(values, seen=config.store_seen)


def _rooms(
    method: Method, context: Context, size: SizeLimit, search: SizeSearch, typical: int
) -> list[tuple[Encoding, int]]:
    """The bytes that the embedding may take, for each precision in which there is room for one.

    ``typical`` is the limit at which the rest of the file is measured.
    """
    found, smallest_files = [], []
    config = context.config
    precisions = PRECISIONS if config.value_precision is None else (config.value_precision,)
    encodings = [_encoding(config, values) for values in precisions]
    besides = [0] * len(encodings)
    if size.file:
        besides = bytes_beside_embedding(method, context, typical, encodings)
    for encoding, beside in zip(encodings, besides, strict=True):
        smallest = search.bytes_at(search.smallest, encoding.values)
        room = min(
            limit
            for limit in (size.embedding, size.file and size.file - beside)
            if limit is not None
        )
        smallest_files.append((beside + smallest, smallest))
        if smallest <= room:
            found.append((encoding, room))
    if found:
        return found
    file, embedding = min(smallest_files)
    if size.file is not None and file > size.file:
        raise BudgetError(
            f"a file of {size.file:,} bytes is too small here: the smallest possible takes "
            f"{file:,}, of which {file - embedding:,} are graph or seen items, backbone, ids and "
            "header"
        )
    raise BudgetError(
        f"an embedding of {size.embedding:,} bytes is too small here: the smallest possible "
        f"takes {embedding:,}"
    )
