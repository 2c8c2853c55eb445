"""`Splits`: what may be learned from, what selects, and what judges.

All three parts share one id space, the union over the parts: an entity that
training never saw still counts in N, and its interactions stay in the truth.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from cerp.data.formats import lightgcn_text
from cerp.data.ids import Id, Ids
from cerp.data.interactions import Interactions
from cerp.data.protocols import VALID_SHARE, cut, drawn_per_user
from cerp.errors import ConfigError, DataError
from cerp.files import errors_named, scratch_beside, to_disk

Part = Literal["train", "valid", "test"]
PARTS: tuple[Part, ...] = get_args(Part)

TITLES = "titles.json"
WEIGHTS = "weights.safetensors"
MAKE_AGAIN = (
    "Put the files back as they were, or make the folder again with Splits.save or datasets.fetch"
)


@dataclass(frozen=True, eq=False)
class Splits:
    """Three disjoint parts over the same users and items."""

    train: Interactions
    valid: Interactions
    test: Interactions
    protocol: dict[str, Any] = field(default_factory=dict)
    """How the parts were made: name, seed and shares, or 'ready-made'."""

    def __post_init__(self) -> None:
        for part in (self.valid, self.test):
            if part.users is not self.train.users or part.items is not self.train.items:
                raise DataError("the parts of a split must share their ids; use Splits.of_parts")
        if len(self.train) == 0:
            raise DataError("the training part is empty")
        self._refuse_overlap()

    @property
    def users(self) -> Ids:
        """Original user ids, over all parts."""
        return self.train.users

    @property
    def items(self) -> Ids:
        """Original item ids, over all parts."""
        return self.train.items

    @property
    def titles(self) -> dict[Id, str]:
        """What items are called, where the data says so."""
        return self.train.titles

    @property
    def num_users(self) -> int:
        """|U|"""
        return len(self.users)

    @property
    def num_items(self) -> int:
        """|I|"""
        return len(self.items)

    @property
    def num_entities(self) -> int:
        """N = |U| + |I|"""
        return self.num_users + self.num_items

    def with_titles(self, titles: dict[Id, str]) -> Splits:
        """The same, with these names of items."""
        train, valid, test = (replace(self.part(name), titles=titles) for name in PARTS)
        return Splits(train, valid, test, protocol=self.protocol)

    def part(self, name: Part) -> Interactions:
        """The part called train, valid or test."""
        return {"train": self.train, "valid": self.valid, "test": self.test}[name]

    def seen_before(self, on: Part) -> Interactions:
        """What a recommendation judged on this part must not repeat.

        Training items, and at test time the validation items too.
        """
        if on == "valid":
            return self.train
        if on == "test":
            return self.train_and_valid
        raise ConfigError(f"evaluation is on 'valid' or 'test', not {on!r}")

    @cached_property
    def train_and_valid(self) -> Interactions:
        """Training and validation together."""
        return merge(self.train, self.valid)

    def refit(self, on: str) -> Splits:
        """The same entities with more to train on: 'train+valid', or 'all' for shipping.

        There is nothing left to select on, and after 'all' nothing to judge on.
        """
        nothing = self.train.subset(np.zeros(len(self.train), dtype=bool))
        protocol = {**self.protocol, "refit": on}
        if on == "train+valid":
            return Splits(self.train_and_valid, nothing, self.test, protocol=protocol)
        if on == "all":
            everything = merge(self.train_and_valid, self.test)
            return Splits(everything, nothing, nothing, protocol=protocol)
        raise ConfigError(f"a refit is on 'train+valid' or 'all', not {on!r}")

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """`Interactions.fingerprint` of each part, and of training and validation together."""
        parts: dict[str, str] = {name: self.part(name).fingerprint for name in PARTS}
        return parts | {"train+valid": self.train_and_valid.fingerprint}

    @cached_property
    def fingerprint(self) -> str:
        """One SHA-256 for the whole split: over those of train, valid and test."""
        text = "".join(self.part(name).fingerprint for name in PARTS)
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    @cached_property
    def learning_fingerprint(self) -> str:
        """`fingerprint` and, where interactions have weights, those of training and validation.

        It tells whether two runs learn from the same; `fingerprint` whether they are judged alike.
        """
        weights = [self.part(name).weight for name in ("train", "valid")]
        if any(weight is None for weight in weights):
            return self.fingerprint
        digest = hashlib.sha256(self.fingerprint.encode("ascii"))
        for weight in weights:
            digest.update(np.asarray(weight, dtype="<f4").tobytes())
        return digest.hexdigest()

    @classmethod
    def of_parts(
        cls, train: Interactions, valid: Interactions | None, test: Interactions, *, seed: int = 0
    ) -> Splits:
        """A ready-made split: parts that were numbered apart get one id space.

        Integer ids are numbered numerically over the union; strings by first
        appearance in train, then valid, then test. Without a validation part,
        one is carved out of training by the seed.
        """
        protocol: dict[str, Any] = {"name": "ready-made"}
        if valid is None:
            carved = drawn_per_user(train, VALID_SHARE, np.random.default_rng(seed))
            train, valid = train.subset(~carved), train.subset(carved)
            protocol = {"name": "ready-made, validation carved", "seed": seed}
        parts = (train, valid, test)
        users, user_maps = _union([part.users for part in parts], "user")
        items, item_maps = _union([part.items for part in parts], "item")
        titles = {**test.titles, **valid.titles, **train.titles}
        train, valid, test = (
            replace(
                Interactions.from_codes(
                    user_map[part.user],
                    item_map[part.item],
                    users=users,
                    items=items,
                    weight=part.weight,
                ),
                titles=titles,
            )
            for part, user_map, item_map in zip(parts, user_maps, item_maps, strict=True)
        )
        return cls(train, valid, test, protocol=protocol)

    def meta(self) -> dict[str, Any]:
        """Sizes and fingerprints, as written to ``meta.json``."""
        return {
            "users": self.num_users,
            "items": self.num_items,
            **{name: len(self.part(name)) for name in PARTS},
            "sha256": self.fingerprints,
            "protocol": self.protocol,
        }

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a folder: three LightGCN files, ``meta.json``, ids, titles and weights.

        The folder appears whole or not at all. Times are not kept: a split has
        used them already.

        Parameters
        ----------
        folder
            Where to; it must not exist.
        overwrite
            Replace an earlier split that is there; anything else stays.

        Raises
        ------
        ConfigError
            It exists already, or cannot be written.

        """
        target = Path(folder)
        is_split = (target / "meta.json").is_file() and (target / "train.txt").is_file()
        if target.exists() and not (overwrite and is_split):
            advice = ", or give overwrite=True to replace it" if is_split else ""
            raise ConfigError(f"{target} exists already; choose another folder{advice}")
        with errors_named(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with scratch_beside(target, is_folder=True) as scratch:
                self._write(scratch)
                for written in (*scratch.iterdir(), scratch):
                    to_disk(written)
                with scratch_beside(target, is_folder=True) as earlier:
                    if target.exists():
                        target.rename(earlier / target.name)
                    scratch.rename(target)
                to_disk(target.parent)

    def _write(self, folder: Path) -> None:
        for name in PARTS:
            part = self.part(name)
            lightgcn_text.write(folder / f"{name}.txt", part.user, part.item)
        for side, ids in (("users", self.users), ("items", self.items)):
            if not ids.is_range:
                _write_json(folder / f"{side}.json", ids.values.tolist())
        if self.titles:
            by_code = [self.titles.get(item) for item in self.items.values.tolist()]
            _write_json(folder / TITLES, by_code)
        if self.train.weight is not None:
            weights = {name: self.part(name).weight for name in PARTS}
            save_file(
                {name: np.array(weight) for name, weight in weights.items()}, folder / WEIGHTS
            )
        (folder / "meta.json").write_text(
            json.dumps(self.meta(), indent=1) + "\n", encoding="utf-8"
        )

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, seed: int = 0) -> Splits:
        """Read a folder of ``train.txt``, ``valid.txt`` and ``test.txt``.

        Without ``valid.txt``, validation is carved out of training by the seed.
        What ``meta.json`` says, if it is there, must agree with what is read.

        Parameters
        ----------
        folder
            Written by `save`, or by another project in the LightGCN format.
        seed
            Draws the validation part, where there is none.

        Returns
        -------
        Splits
            With ``protocol`` as saved, or ``ready-made``.

        Raises
        ------
        DataError
            A file is missing or malformed, was changed, or the parts overlap.

        """
        root = Path(folder)
        if not root.is_dir():
            raise DataError(
                f"{root}: no such folder; name one with train.txt and test.txt, such as "
                "Splits.save writes (cerp.read takes files)"
            )
        names = [name for name in PARTS if (root / f"{name}.txt").is_file()]
        if "train" not in names or "test" not in names:
            there = ", ".join(sorted(path.name for path in root.iterdir())[:8]) or "nothing"
            raise DataError(
                f"{root}: a split folder holds train.txt, test.txt and (optionally) valid.txt; "
                f"found {there}"
            )
        meta = _read_json(root / "meta.json") if (root / "meta.json").is_file() else {}
        paths = [root / f"{name}.txt" for name in names]
        empty = [path for path in paths if meta.get(path.stem) == 0]
        parsed = dict(zip(names, lightgcn_text.parse(paths, may_be_empty=empty), strict=True))
        users = _stored_ids(root / "users.json", meta.get("users"))
        items = _stored_ids(root / "items.json", meta.get("items"))
        parts = {}
        for name, (user, item, lines) in parsed.items():
            parts[name] = _coded(user, item, lines, users, items, root / f"{name}.txt")
        if (root / WEIGHTS).is_file():
            parts = _with_weights(parts, root / WEIGHTS)
        if items is not None:
            parts["train"] = replace(parts["train"], titles=_stored_titles(root / TITLES, items))
        splits = cls.of_parts(parts["train"], parts.get("valid"), parts["test"], seed=seed)
        splits._check_against(meta, root)
        if "protocol" in meta:
            splits = cls(splits.train, splits.valid, splits.test, protocol=meta["protocol"])
        return splits

    def _check_against(self, meta: dict[str, Any], root: Path) -> None:
        mine = self.meta()
        carved = "carved" in self.protocol["name"]
        for key in ("users", "items", *(() if carved else PARTS)):
            if key in meta and meta[key] != mine[key]:
                raise DataError(
                    f"{root}: meta.json says {meta[key]:,} {key}, the files hold {mine[key]:,}; "
                    f"were they edited? {MAKE_AGAIN}"
                )
        for key, digest in meta.get("sha256", {}).items():
            if carved and key in ("train", "valid"):
                continue
            if key in mine["sha256"] and digest != mine["sha256"][key]:
                raise DataError(
                    f"{root}: the fingerprint of {key} is {mine['sha256'][key]}, meta.json says "
                    f"{digest}; the files were changed after they were written. {MAKE_AGAIN}"
                )

    def _refuse_overlap(self) -> None:
        width = self.num_items
        keys = [
            part.user.astype(np.int64) * width + part.item
            for part in (self.train, self.valid, self.test)
        ]
        for first, second in ((0, 1), (0, 2), (1, 2)):
            shared = np.intersect1d(keys[first], keys[second], assume_unique=True)
            if shared.size:
                user, item = divmod(int(shared[0]), width)
                raise DataError(
                    f"{shared.size:,} interactions are in both {PARTS[first]} and "
                    f"{PARTS[second]}, such as user {self.users.decode([user])[0]!r} with item "
                    f"{self.items.decode([item])[0]!r}; a split must not overlap"
                )

    def __repr__(self) -> str:
        total = sum(len(self.part(name)) for name in PARTS)
        sizes = (
            f"{name} {len(self.part(name)):,} ({len(self.part(name)) / total:.0%})"
            for name in PARTS
        )
        protocol = dict(self.protocol)
        name = protocol.pop("name", "ready-made")
        seed = f", seed {protocol['seed']}" if "seed" in protocol else ""
        return (
            f"Splits: {self.num_users:,} users and {self.num_items:,} items ({name}{seed})\n"
            f"  {', '.join(sizes)}"
        )


def split(data: Interactions, protocol: str = "random", *, seed: int = 0) -> Splits:
    """Cut interactions into train, valid and test; see `cerp.data.protocols`."""
    valid, test, facts = cut(data, protocol, seed)
    return Splits(
        data.subset(~valid & ~test), data.subset(valid), data.subset(test), protocol=facts
    )


def merge(first: Interactions, second: Interactions) -> Interactions:
    """The union of two parts over the same ids."""
    union = Interactions.from_codes(
        np.concatenate([first.user, second.user]),
        np.concatenate([first.item, second.item]),
        users=first.users,
        items=first.items,
        weight=None
        if first.weight is None or second.weight is None
        else np.concatenate([first.weight, second.weight]),
    )
    return replace(union, titles=first.titles)


def _union(sides: list[Ids], what: str) -> tuple[Ids, list[npt.NDArray[np.int32]]]:
    """One id space over several, and for each the map from its codes to the new ones."""
    if all(side is sides[0] for side in sides):
        same = np.arange(len(sides[0]), dtype=np.int32)
        return sides[0], [same] * len(sides)
    if len({side.are_integers for side in sides if len(side)}) > 1:
        raise DataError(f"{what} ids are integers in one part and strings in another")
    ids, codes = Ids.in_native_order(np.concatenate([side.values for side in sides]))
    return ids, np.split(codes, np.cumsum([len(side) for side in sides])[:-1])


def _coded(
    user: npt.NDArray[Any],
    item: npt.NDArray[Any],
    lines: npt.NDArray[Any],
    users: Ids | None,
    items: Ids | None,
    path: Path,
) -> Interactions:
    """A parsed file as interactions; with stored ids the file holds their codes."""
    if users is not None and items is not None:
        try:
            return Interactions.from_codes(user, item, users=users, items=items)
        except DataError:
            raise _misfit_error(path, users, items) from None
    users, codes = Ids.in_native_order(np.concatenate([lines, user]))
    items, item_codes = Ids.in_native_order(item)
    return Interactions.from_codes(codes[len(lines) :], item_codes, users=users, items=items)


def _misfit_error(path: Path, users: Ids, items: Ids) -> DataError:
    """The error for a saved part that holds a code which none of the stored ids has."""
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        for place, token in enumerate(line.split()):
            side, ids = ("item", items) if place else ("user", users)
            if not (token.isdecimal() and token == str(int(token)) and int(token) < len(ids)):
                return DataError(
                    f"{path}, line {number}: {side} {token!r} is not among the {side}s 0 to "
                    f"{len(ids) - 1} of this split; was the file edited? {MAKE_AGAIN}"
                )
    return DataError(f"{path} does not fit the other files of this split. {MAKE_AGAIN}")


def _stored_ids(path: Path, count: int | None) -> Ids | None:
    """The ids that a saved split keeps; None when the files hold original ids."""
    if path.is_file():
        values: list[Id] = _read_json(path)
        return Ids(values)
    return Ids.range(count) if count is not None else None


def _stored_titles(path: Path, items: Ids) -> dict[Id, str]:
    """What a saved split calls its items: by code, null for an item without a title."""
    if not path.is_file():
        return {}
    titles = _read_json(path)
    is_list = isinstance(titles, list) and all(isinstance(one, str | None) for one in titles)
    if not is_list or len(titles) != len(items):
        raise DataError(
            f"{path} must hold a title or null for each of the {len(items):,} items of this "
            f"split; was it edited? {MAKE_AGAIN}"
        )
    found = zip(items.values.tolist(), titles, strict=True)
    return {item: title for item, title in found if title is not None}


def _with_weights(parts: dict[Part, Interactions], path: Path) -> dict[Part, Interactions]:
    """The parts of a saved split with the weights that it keeps, in the order of their rows."""
    try:
        weights = load_file(path)
        return {
            name: Interactions.from_codes(
                part.user, part.item, users=part.users, items=part.items, weight=weights[name]
            )
            for name, part in parts.items()
        }
    except (SafetensorError, KeyError, DataError, OSError) as error:
        raise DataError(
            f"{path} must hold a positive weight for each interaction of this split ({error}); was "
            f"it edited? {MAKE_AGAIN}"
        ) from None


def _write_json(path: Path, values: list[Any]) -> None:
    path.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path}: not valid JSON ({error})") from None
