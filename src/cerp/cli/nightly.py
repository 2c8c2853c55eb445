"""Lists for many: what 'cerp recommend' was asked for, read once, and a table written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cerp.data.ids import Id, Int32Array
from cerp.data.interactions import Interactions
from cerp.data.readers import read_later
from cerp.errors import ColumnsError, ConfigError, DataError
from cerp.naming import counted
from cerp.progress import progress
from cerp.runtime import Recommendation, Runtime
from cerp.runtime.batch import Cap, Request, Rows, lists_in_blocks, lists_of_histories
from cerp.runtime.item_choice import FoundItems, ItemAttributes, read_items
from cerp.runtime.list_tables import FoundUsers, read_users, refuse_output, refuse_unknown
from cerp.runtime.list_writers import refuse_table, table_writer


class Written(NamedTuple):
    """What was written, and what was left out."""

    rows: int
    users: int
    folded_users: int
    """Users whom the model does not know, and whose items it does."""
    skipped_users: int
    unknown_items: int
    """Of the files of items and the history."""

    def notes(self) -> Iterator[str]:
        """In words."""
        if self.folded_users:
            users = counted(self.folded_users, "new user")
            yield f"lists of {users} are made of the history"
        if self.skipped_users:
            yield f"skipped {counted(self.skipped_users, 'user')}, of whom nothing is known"
        if self.unknown_items:
            items = counted(self.unknown_items, "item")
            yield f"the model does not know {items} of the files given"


@dataclass(frozen=True)
class Nightly:
    """The options of lists, by the names of the command line."""

    k: int
    exclude_seen: bool
    exclude: Path | None
    candidates: Path | None
    items: Path | None
    where: str | None
    category: str | None
    most: int | None
    history: Path | None
    unseen_items: bool = False

    def __post_init__(self) -> None:
        if self.items is None and (self.where or self.category):
            raise ConfigError("--where and --category look at a file of items: --items FILE")
        if (self.category is None) != (self.most is None):
            raise ConfigError("--category and --most belong together: --category brand --most 2")
        if self.items is not None and not (self.where or self.category):
            raise ConfigError("--items needs --where to choose by, or --category and --most")

    @property
    def chooses(self) -> bool:
        """Whether items are chosen at all."""
        return any((self.exclude, self.candidates, self.items))

    def request(self, runtime: Runtime) -> tuple[Request, int]:
        """By code, and how many items of the files are not in the model."""
        unknown = 0
        lots: list[FoundItems] = []
        if self.candidates is not None:
            lots.append(read_items(self.candidates, runtime.items))
        attributes = None if self.items is None else ItemAttributes(self.items, runtime.items)
        if attributes is not None and self.where is not None:
            lots.append(attributes.chosen(self.where))
        chosen: Int32Array | None = None
        for lot in lots:
            chosen = lot.codes if chosen is None else np.intersect1d(chosen, lot.codes)
            unknown += lot.unknown
        excluded = None
        if self.exclude is not None:
            excluded, more = read_items(self.exclude, runtime.items)
            unknown += more
        cap = None
        if attributes is not None and self.category is not None and self.most is not None:
            cap = Cap(attributes.categories(self.category), self.most)
        return (
            Request(self.k, self.exclude_seen, excluded, chosen, cap, self.unseen_items),
            unknown,
        )

    def for_user(self, runtime: Runtime, user: Id) -> list[Recommendation]:
        """The list of one user of training."""
        runtime.refuse_without_users()
        code = runtime.users.encode([user], what="user")
        request, _ = self.request(runtime)
        return _named(runtime, lists_in_blocks(runtime, code, request, workers=1))

    def for_liked(self, runtime: Runtime, liked: list[Id]) -> list[Recommendation]:
        """The list of someone new."""
        if not self.chooses:
            return runtime.recommend_for(
                liked, self.k, exclude_seen=self.exclude_seen, unseen_items=self.unseen_items
            )
        codes = np.unique(runtime.items.encode(liked, what="item"))
        request, _ = self.request(runtime)
        return _named(runtime, lists_of_histories(runtime, [codes], request, workers=1))


def refuse_nightly(output: Path, users: Path | None) -> None:
    """Refuse what cannot be written, before a model is read."""
    refuse_table(output)
    if users is not None:
        refuse_output(output, users)


def write_nightly(
    runtime: Runtime, asked: Nightly, output: Path, users: Path | None, *, skip_unknown: bool
) -> Written:
    """Lists of a table of users, or of everybody, as a table."""
    if asked.history is None:  # else everybody has items to be known by
        runtime.refuse_without_users()
    request, unknown_items = asked.request(runtime)
    history: dict[Id, Int32Array] = {}
    if asked.history is not None:
        history, more = _histories(_read_history(asked.history), runtime)
        unknown_items += more
    if users is None:
        everybody = runtime.users.values.tolist()
        table = FoundUsers(everybody, dict.fromkeys(history.keys() - set(everybody), ""))
        skip_unknown = True
    else:
        table = read_users(users, runtime.users)
    folded = [user for user in table.unknown if user in history and len(history[user])]
    strangers = {user: place for user, place in table.unknown.items() if user not in set(folded)}
    if users is not None and not skip_unknown:
        refuse_unknown(FoundUsers(table.known, strangers), users, runtime.users)
    codes = runtime.users.encode(table.known, what="user")
    known = {code: history[user] for user, code in zip(table.known, codes.tolist(), strict=True)
             if user in history}  # fmt: skip
    lists = chain(
        lists_in_blocks(runtime, codes, request, known) if len(codes) else iter(()),
        _after(len(codes), lists_of_histories(runtime, [history[one] for one in folded], request)),
    )
    count = _write(output, runtime, [*table.known, *folded], lists)
    return Written(count, len(codes) + len(folded), len(folded), len(strangers), unknown_items)


def _write(output: Path, runtime: Runtime, users: list[Id], lists: Iterator[Rows]) -> int:
    count = done = 0
    with table_writer(output, users, runtime) as table, progress("lists", len(users)) as bar:
        for rows in lists:
            table.write(rows)
            count += len(rows.items)
            last = int(rows.users[-1]) + 1 if len(rows.users) else done
            bar.advance(last - done)
            done = last
    return count


def _after(first: int, lists: Iterator[Rows]) -> Iterator[Rows]:
    return (rows._replace(users=rows.users + first) for rows in lists)


def _read_history(path: Path) -> Interactions:
    try:
        return read_later(path)
    except ColumnsError as error:
        raise DataError(
            f"{path}: which columns of the history are users and items cannot be told; let line 1 "
            "name them user and item"
        ) from error


def _histories(data: Interactions, runtime: Runtime) -> tuple[dict[Id, Int32Array], int]:
    """What everybody took, as items of the model; and how many items it does not know."""
    items = data.items.values.tolist()
    ids = [runtime.items.of_kind(item) for item in items]
    place = {item: code for code, item in enumerate(runtime.items.values.tolist())}
    codes = np.array([place.get(item, -1) for item in ids], dtype=np.int32)
    found: dict[Id, Int32Array] = {}
    for code, user in enumerate(data.users.values.tolist()):
        taken = codes[data.item[data.user_offsets[code] : data.user_offsets[code + 1]]]
        found[runtime.users.of_kind(user)] = np.unique(taken[taken >= 0])
    return found, int((codes < 0).sum())


def _named(runtime: Runtime, lists: Iterator[Rows]) -> list[Recommendation]:
    return [
        Recommendation(item, score)
        for rows in lists
        for item, score in zip(runtime.items.decode(rows.items), rows.scores.tolist(), strict=True)
    ]
