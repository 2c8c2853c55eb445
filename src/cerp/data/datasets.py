"""`load`: splits from a name, a folder or a file. What the DATA of every command goes through.

A name is one of
- ``synthetic``: generated on the spot;
- a public data set of `PUBLIC_DATA_SETS`: downloaded on first use and verified on every use;
- a folder in the data directory (``$CERP_DATA_DIR``, or the user's cache).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cerp.data.download import download
from cerp.data.formats.base import format_of_suffix
from cerp.data.formats.titles import titles_of
from cerp.data.readers import read
from cerp.data.split_folder import form_of
from cerp.data.splits import PARTS, Splits
from cerp.data.synthetic import synthetic, synthetic_titles
from cerp.errors import ConfigError, DataError, DownloadError
from cerp.files import to_disk

SPLIT_FILES = ("train.txt", "test.txt")
ALREADY_SPLIT = "is split already"


@dataclass(frozen=True)
class PublicDataSet:
    """Where the train.txt and test.txt of a public data set are, and what they must hold."""

    train_url: str
    test_url: str
    users: int
    items: int
    train: int
    """Interactions in train.txt, out of which validation is carved."""
    test: int
    sha256: Mapping[str, str]
    """Order-free fingerprints (`Splits.fingerprints`) of 'train+valid' and 'test', where known."""

    @property
    def urls(self) -> dict[str, str]:
        """The address of each file."""
        return dict(zip(SPLIT_FILES, (self.train_url, self.test_url), strict=True))

    def difference(self, splits: Splits) -> str | None:
        """What is not as published, or None."""
        counts = {
            "users": (splits.num_users, self.users),
            "items": (splits.num_items, self.items),
            "interactions in train+valid": (len(splits.train_and_valid), self.train),
            "interactions in test": (len(splits.test), self.test),
        }
        for what, (found, published) in counts.items():
            if found != published:
                return f"{found:,} {what}, published are {published:,}"
        for part, digest in self.sha256.items():
            if splits.fingerprints[part] != digest:
                return (
                    f"the fingerprint of {part} is {splits.fingerprints[part]}, "
                    f"the published one {digest}"
                )
        return None


_GOWALLA = "https://raw.githubusercontent.com/gusye1234/LightGCN-PyTorch/master/data/gowalla"
_YELP2020 = (
    "https://raw.githubusercontent.com/xurong-liang/LEGCF/"
    "316844b760899c9ccec4a0ab06a06fe2cf042bb4/data/yelp2020"
)

PUBLIC_DATA_SETS: dict[str, PublicDataSet] = {
    "gowalla": PublicDataSet(
        train_url=f"{_GOWALLA}/train.txt",
        test_url=f"{_GOWALLA}/test.txt",
        users=29_858,
        items=40_981,
        train=810_128,
        test=217_242,
        sha256={
            "train+valid": "f44cff05ba25a6ccaac60444d7cce50aecd50831597ace016f35cc309045682d",
            "test": "49228ae5460098301b646682534c1e0ec34f811c49e0e3740f16f7760c8f512d",
        },
    ),
    "yelp2020": PublicDataSet(
        train_url=f"{_YELP2020}/train.txt",
        test_url=f"{_YELP2020}/test.txt",
        users=71_135,
        items=45_063,
        train=1_398_438,
        test=384_561,
        # None is known for train: that of the first download is noted in its meta.json.
        sha256={"test": "21a047913301b31bdf7bdc7a8ff9d93c25215b91d8a6c41e7baf7b8e3008878f"},
    ),
}
"""The public data sets of the paper, by name."""


def load(
    source: str | os.PathLike[str], *, protocol: str = "random", seed: int = 0, **read_options: Any
) -> Splits:
    """Splits of a data set by name, of a split folder, or of any file that `cerp.read` takes.

    A ready-made split (a folder with train, test and perhaps valid, as LightGCN
    text or as tables such as train.csv) stays as it is; where it has no
    validation part, one is carved out of training by the seed. Anything else is
    read with the options (None: not given) and split by protocol and seed. A
    string is looked up as a name first; a path is always a path.

    Parameters
    ----------
    source
        ``synthetic``, ``gowalla``, ``yelp2020``, a folder in the data directory, or a path.
    protocol
        How to split what is not split yet, see `Interactions.split`.
    seed
        Of the split.
    **read_options
        As `cerp.read` takes them.

    Returns
    -------
    Splits
        Train, validation and test parts.

    Raises
    ------
    DataError
        There is no such data, or something is wrong with it.
    ConfigError
        An option that this source has no use for.
    DownloadError
        A public data set could not be fetched.

    """
    options = {key: value for key, value in read_options.items() if value is not None}
    titles = options.pop("titles", None)
    if titles is not None:
        splits = load(source, protocol=protocol, seed=seed, **options)
        return splits.with_titles(titles_of(splits.items, titles))
    if source == "synthetic":
        _refuse(options, source, "is generated, not read")
        named = replace(synthetic(), titles=synthetic_titles())
        return named.split(protocol, seed=seed)
    published = PUBLIC_DATA_SETS.get(source) if isinstance(source, str) else None
    path = fetch(str(source)) if published else _located(source)
    tables = _part_tables(path)
    if not _is_split(path) and not tables:
        return read(path, **options).split(protocol, seed=seed)
    if protocol != "random":
        options["protocol"] = protocol
    if tables:
        _refuse(
            {key: options[key] for key in ("protocol", "k_core") if key in options},
            path,
            ALREADY_SPLIT,
        )
        parts = {name: read(file, **options) for name, file in tables.items()}
        return Splits.of_parts(parts["train"], parts.get("valid"), parts["test"], seed=seed)
    _refuse(options, path, ALREADY_SPLIT)
    splits = Splits.load(path, seed=seed)
    if published and (difference := published.difference(splits)):
        raise DataError(
            f"{path} is not {source}: {difference}. Rename it, or remove it to download it again"
        )
    return splits


def fetch(name: str) -> Path:
    """The folder of a public data set, downloaded and verified unless it is there already.

    The folder appears only after its content was verified.
    """
    if name not in PUBLIC_DATA_SETS:
        raise ConfigError(
            f"{name!r} is no public data set; choose one of {', '.join(PUBLIC_DATA_SETS)}"
        )
    source, folder = PUBLIC_DATA_SETS[name], data_dir() / name
    if _is_split(folder):
        return folder
    if folder.exists():
        raise DataError(f"{folder} lacks train.txt or test.txt: complete it, or remove it")
    arriving = folder.with_name(f".{name}.part")
    try:
        for file, url in source.urls.items():
            if not (arriving / file).is_file():
                download(url, arriving / file)
        _verify(arriving, name, source)
        for written in (*arriving.iterdir(), arriving):
            to_disk(written)
        arriving.rename(folder)
        to_disk(folder.parent)
    except DownloadError as error:
        raise DownloadError(f"{error}\n{_by_hand(source, folder)}") from error
    except OSError as error:
        raise DownloadError(
            f"cannot write {folder}: {error}; "
            "let CERP_DATA_DIR name a folder that can be written to"
        ) from error
    return folder


def available() -> dict[str, str]:
    """The names that `load` knows here, each with where its data comes from."""
    root = data_dir()
    names = {"synthetic": "generated"}
    names |= dict.fromkeys(PUBLIC_DATA_SETS, f"downloaded to {root} on first use")
    if root.is_dir():
        folders = (path for path in sorted(root.iterdir()) if path.is_dir())
        names |= {path.name: str(path) for path in folders if not path.name.startswith(".")}
    return names


def data_dir() -> Path:
    """Where data sets live: ``$CERP_DATA_DIR``, or cerp's folder in the user's cache."""
    if chosen := os.environ.get("CERP_DATA_DIR"):
        return Path(chosen)
    # By hand: platformdirs would be a dependency for these few lines, and pooch cannot resume.
    if sys.platform == "win32":
        cache = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        cache = Path.home() / "Library" / "Caches"
    else:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "cerp"


def _verify(arriving: Path, name: str, source: PublicDataSet) -> None:
    """Keep a download only if it is what was published, and note what that is."""
    try:
        splits = Splits.load(arriving)
        difference = source.difference(splits)
    except DataError as error:
        difference = str(error)
    if difference:
        shutil.rmtree(arriving)
        raise DownloadError(
            f"what was downloaded is not {name}, and was removed again: {difference}"
        )
    meta = {
        "users": source.users,
        "items": source.items,
        "train+valid": source.train,
        "test": source.test,
        "sha256": {part: splits.fingerprints[part] for part in ("train+valid", "test")},
        "urls": source.urls,
    }
    (arriving / "meta.json").write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")


def _by_hand(source: PublicDataSet, folder: Path) -> str:
    files = "".join(f"\n  {folder / file}  from {url}" for file, url in source.urls.items())
    return f"Try again later, or put the files there by hand:{files}"


def _located(source: str | os.PathLike[str]) -> Path:
    for path in (Path(source), data_dir() / source):
        if path.exists():
            return path
    raise DataError(
        f"{os.fspath(source)}: no such file or folder, and no data set of that name; "
        f"there are {', '.join(available())}"
    )


def is_split_or_name(source: str) -> bool:
    """Whether `load` takes this for data that is split already, or for a data set by name."""
    if source == "synthetic" or source in PUBLIC_DATA_SETS:
        return True
    path = _located(source)
    return not Path(source).exists() or _is_split(path) or bool(_part_tables(path))


def _is_split(path: Path) -> bool:
    return form_of(path) is not None


def _part_tables(path: Path) -> dict[str, Path]:
    """The tables train, test and perhaps valid in a folder, such as train.csv; else nothing."""
    if not path.is_dir() or _is_split(path):
        return {}
    found: dict[str, Path] = {}
    for file in sorted(path.iterdir()):
        name, _, suffixes = file.name.lower().partition(".")
        if name not in PARTS or not format_of_suffix(f".{suffixes.removesuffix('.gz')}"):
            continue
        if name in found:
            raise DataError(
                f"{path}: both {found[name].name} and {file.name} could be the {name} part"
            )
        found[name] = file
    return found if {"train", "test"} <= found.keys() else {}


def _refuse(options: Mapping[str, Any], what: str | os.PathLike[str], why: str) -> None:
    if options:
        raise ConfigError(f"{what} {why}: {', '.join(options)} cannot be applied")
