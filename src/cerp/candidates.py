"""Which ways of writing a model are worth training for a budget.

A limit on values leaves no choice. A limit on bytes does: coarser values leave
room for more of them. So each precision is a candidate with as many values as
then fit, all are trained, and validation decides.
"""

from __future__ import annotations

from typing import NamedTuple

from cerp.artifact import Encoding, ValuesCodec
from cerp.budget import Budget, parse_size
from cerp.config import Config
from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.methods import Context, Method
from cerp.shipping import SizeLimit, bytes_beside_embedding, largest_limit, smallest_embedding

FULL = "full"
"""The budget of a model that is not compressed."""
PRECISIONS: tuple[ValuesCodec, ...] = ("fp16", "int8", "int4")
"""What is tried under a limit on bytes; fp32 would halve the number of values for nothing."""


class Candidate(NamedTuple):
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
    return None if parsed.kept is None else parsed.limit(splits.num_entities, config.dim)


def find_candidates(method: Method, context: Context, budget: str) -> list[Candidate]:
    """What to train for a budget, each with the values that it has room for."""
    config = context.config
    limit = value_limit(context.splits, config, budget)
    size = SizeLimit(
        None if budget == FULL else Budget.parse(budget).size,
        None if config.max_file_size is None else parse_size(config.max_file_size),
    )
    if size == SizeLimit():
        assert limit is not None
        if config.values is not None:
            method.sketch(context.with_limits(limit), limit)  # refused now, not after training
        return [Candidate(limit, _encoding(config, config.values or "fp32"), size)]
    most = context.splits.num_entities * config.dim if limit is None else limit
    rooms = _rooms(method, context, size)
    context, limits = context.with_limits(1), []
    for _ in range(2):  # the largest limit decides on the buckets, and those on all limits
        limits = [
            min(most, largest_limit(method, context, room, encoding.values))
            for encoding, room in rooms
        ]
        context = context.with_limits(max(limits))
    return [
        Candidate(limit, encoding, size) for limit, (encoding, _) in zip(limits, rooms, strict=True)
    ]


def _encoding(config: Config, values: ValuesCodec) -> Encoding:
    # LightGCN's graph is what users have seen: a file cannot do without it.
    return Encoding(values, seen=config.keep_seen or config.backbone == "lightgcn")


def _rooms(method: Method, context: Context, size: SizeLimit) -> list[tuple[Encoding, int]]:
    """The bytes that the embedding may take, for each precision in which there is room for one."""
    found, smallest_files = [], []
    chosen = context.config.values
    for values in PRECISIONS if chosen is None else (chosen,):
        encoding = _encoding(context.config, values)
        beside = bytes_beside_embedding(method, context, encoding) if size.file else 0
        _, smallest = smallest_embedding(method, context, values)
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
    if size.embedding is not None and embedding > size.embedding:
        raise ConfigError(
            f"an embedding of {size.embedding:,} bytes is too small here: the smallest possible "
            f"takes {embedding:,}"
        )
    raise ConfigError(
        f"a file of {size.file:,} bytes is too small here: the smallest possible takes {file:,}, "
        f"of which {file - embedding:,} are graph or seen items, backbone, ids and header"
    )
