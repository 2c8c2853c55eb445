"""`Splits`: what may be learned from, what selects, and what judges.

All three parts share one id space, the union over the parts: an entity that
training never saw still counts in N, and its interactions stay in the truth.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from cerp.data.ids import Id, Ids, union_of
from cerp.data.interactions import Interactions
from cerp.data.merging import merge, merged_pairs, shared_keys
from cerp.data.protocols import VALID_SHARE, cut, drawn_per_user
from cerp.data.split_folder import (
    MAKE_AGAIN,
    META,
    TITLES,
    WEIGHTS,
    form_of,
    read_json,
    read_part,
    read_text_parts,
    stored_ids,
    stored_titles,
    with_weights,
    write_json,
    write_part,
    write_weights,
)
from cerp.errors import ConfigError, DataError
from cerp.files import errors_named, scratch_beside, to_disk

Part = Literal["train", "valid", "test"]
PARTS: tuple[Part, ...] = get_args(Part)


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
        parts = self.parts_before(on)
        return self.train if len(parts) == 1 else self.train_and_valid

    def parts_before(self, on: Part) -> tuple[Interactions, ...]:
        """The parts that `seen_before` is made of, for who looks at a few users only."""
        if on == "valid":
            return (self.train,)
        if on == "test":
            return self.train, self.valid
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

    def without_test(self) -> Splits:
        """The same entities, training and validation, and nothing to test on."""
        nothing = self.test.subset(np.zeros(len(self.test), dtype=bool))
        return replace(self, test=nothing, protocol={**self.protocol, "test": "withheld"})

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """`Interactions.fingerprint` of each part, and of training and validation together."""
        parts: dict[str, str] = {name: self.part(name).fingerprint for name in PARTS}
        # Of the union a stretch at a time: it is not made for this alone.
        together = hashlib.sha256()
        for user, item in merged_pairs(self.train, self.valid):
            together.update(np.stack([user, item], axis=1).astype("<i4").data)
        return parts | {"train+valid": together.hexdigest()}

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
        users, user_maps = union_of([part.users for part in parts], "user")
        items, item_maps = union_of([part.items for part in parts], "item")
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
        """Write a folder: three arrays of pairs, ``meta.json``, ids, titles and weights.

        ``numpy.load("train.npy")`` has the codes of a user and an item in each row. The folder
        appears whole or not at all. Times are not kept: a split has used them already.

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
        is_split = (target / META).is_file() and form_of(target) is not None
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
            write_part(folder / f"{name}.npy", self.part(name))
        for side, ids in (("users", self.users), ("items", self.items)):
            if not ids.is_range:
                write_json(folder / f"{side}.json", ids.values.tolist())
        if self.titles:
            by_code = [self.titles.get(item) for item in self.items.values.tolist()]
            write_json(folder / TITLES, by_code)
        if self.train.weight is not None:
            write_weights(folder / WEIGHTS, {name: self.part(name) for name in PARTS})
        (folder / META).write_text(json.dumps(self.meta(), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, seed: int = 0) -> Splits:
        """Read a folder that `save` wrote, or one of ``train.txt``, ``valid.txt`` and ``test.txt``.

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
                f"{root}: no such folder; name one with train.txt and test.txt, or one that "
                "Splits.save writes (cerp.read takes files)"
            )
        form = form_of(root)
        if form is None:
            there = ", ".join(sorted(path.name for path in root.iterdir())[:8]) or "nothing"
            raise DataError(
                f"{root}: a split folder holds train.txt, test.txt and (optionally) valid.txt, or "
                f"the same as .npy; found {there}"
            )
        meta = read_json(root / META) if (root / META).is_file() else {}
        return cls._of_arrays(root, meta) if form == ".npy" else cls._of_text(root, meta, seed)

    @classmethod
    def _of_arrays(cls, root: Path, meta: dict[str, Any]) -> Splits:
        users, items = (stored_ids(root, side, meta.get(side)) for side in ("users", "items"))
        if users is None or items is None:
            raise DataError(
                f"{root}: {META} is missing, which says how many users and items there are. "
                f"{MAKE_AGAIN}"
            )
        digests = meta.get("sha256", {})
        parts = {
            name: read_part(root / f"{name}.npy", users, items, digests.get(name)) for name in PARTS
        }
        if (root / WEIGHTS).is_file():
            parts = with_weights(parts, root / WEIGHTS)
        titles = stored_titles(root, items)
        train, valid, test = (replace(part, titles=titles) for part in parts.values())
        splits = cls(train, valid, test, protocol=meta.get("protocol", {"name": "ready-made"}))
        splits._check_counts(meta, root, PARTS)
        return splits

    @classmethod
    def _of_text(cls, root: Path, meta: dict[str, Any], seed: int) -> Splits:
        names = [name for name in PARTS if (root / f"{name}.txt").is_file()]
        parts = read_text_parts(root, meta, names)
        if meta.get("items") is not None or (root / "items.json").is_file():
            titles = stored_titles(root, parts["train"].items)
            parts["train"] = replace(parts["train"], titles=titles)
        splits = cls.of_parts(parts["train"], parts.get("valid"), parts["test"], seed=seed)
        splits._check_against(meta, root)
        if "protocol" in meta:
            splits = cls(splits.train, splits.valid, splits.test, protocol=meta["protocol"])
        return splits

    def _check_counts(self, meta: dict[str, Any], root: Path, parts: Iterable[Part]) -> None:
        counts = {"users": self.num_users, "items": self.num_items}
        counts |= {name: len(self.part(name)) for name in parts}
        for key, count in counts.items():
            if key in meta and meta[key] != count:
                raise DataError(
                    f"{root}: {META} says {meta[key]:,} {key}, the files hold {count:,}; "
                    f"were they edited? {MAKE_AGAIN}"
                )

    def _check_against(self, meta: dict[str, Any], root: Path) -> None:
        carved = "carved" in self.protocol["name"]
        self._check_counts(meta, root, () if carved else PARTS)
        for key, digest in meta.get("sha256", {}).items():
            if carved and key in ("train", "valid"):
                continue
            mine = self.fingerprints.get(key)
            if mine is not None and digest != mine:
                raise DataError(
                    f"{root}: the fingerprint of {key} is {mine}, {META} says {digest}; the files "
                    f"were changed after they were written. {MAKE_AGAIN}"
                )

    def _refuse_overlap(self) -> None:
        if not len(shared_keys(*map(self.part, PARTS))):
            return
        for first, second in itertools.combinations(PARTS, 2):
            shared = shared_keys(self.part(first), self.part(second))
            if count := len(shared):
                user, item = divmod(int(shared[0]), self.num_items)
                raise DataError(
                    f"{count:,} interactions are in both {first} and {second}, such as "
                    f"user {self.users.decode([user])[0]!r} with item "
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
