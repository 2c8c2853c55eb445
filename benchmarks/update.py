"""What `cerp update` is worth on later rows, beside training anew, and the time of both.

    CERP_DATA_DIR=... python benchmarks/update.py [ml-100k] [gowalla] [gowalla-whole]

MovieLens-100K by time: a model of the first 80% takes in the next 10%, without training and with
some epochs of it, and is judged on the last 10%, beside one that is trained anew on 90%.

Gowalla by arrival, which is the order of its ids: models of the first 1,000 users take in the next
250 with their training rows and the items that those bring, and are judged on the test rows of
the 250, beside models trained anew on all 1,250. Here for matrix factorisation. The graph filter is
searched for in seconds there, about what starting Python takes, so it has all of Gowalla: 23,886
users are known, and 5,972 arrive. (Item neighbours have no users, and nothing joins them: they are
trained anew.)

All are judged on the same rows: those of users and items that the model trained anew knows. Writes
results/update.json; data sets that are not named keep their figures.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from machine import RESULTS, machine, write_figures

from cerp.data.datasets import data_dir, load

Pairs = npt.NDArray[np.integer[Any]]

ANEW = "trained anew"
SOME, ALL = (1000, 1250), (23_886, 29_858)
"""Users of Gowalla: before the first model, and after it."""


class Kind(NamedTuple):
    """A kind of model, and how it is trained and updated."""

    name: str
    train: tuple[str, ...]
    epochs: tuple[int, ...]
    """Of updates to try."""


LIGHTGCN = Kind("lightgcn", ("--budget", "95%"), (0, 3))
UD = ("--method", "ud", "--budget", "50%", "--dim", "32", "--epochs", "20")
FACTORS = Kind("mf", ("--backbone", "mf", *UD), (0, 3))
FILTER = Kind("filter", ("--method", "filter"), (0,))


def main() -> None:
    """Measure what is asked for, print it, and write it beside the figures that are there."""
    plans = {
        "ml-100k": (_movielens, [LIGHTGCN]),
        "gowalla": (_some_of_gowalla, [FACTORS]),
        "gowalla-whole": (_all_of_gowalla, [FILTER]),
    }
    path = RESULTS / "update.json"
    figures: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    for name in sys.argv[1:] or plans:
        cut, kinds = plans[name]
        with tempfile.TemporaryDirectory() as folder:
            parts = cut(Path(folder))
            measured = {kind.name: _measured(Path(folder), parts, kind) for kind in kinds}
        figures[name] = {
            "data": (cut.__doc__ or "").strip(),
            **measured,
            "machine": machine("numpy", "torch"),
        }
        print(json.dumps(figures[name], indent=1))
    write_figures(path, figures)


def _measured(folder: Path, parts: dict[str, Path], kind: Kind) -> dict[str, Any]:
    """Accuracy on the later rows and seconds, of a model trained anew and of updated ones."""
    seconds: dict[str, float] = {}
    old, anew = folder / f"{kind.name}-old", folder / f"{kind.name}-anew"
    refit = (*kind.train, "--refit", "all")
    _timed(seconds, "trained before", "train", parts["first"], *refit, "-o", old)
    _timed(seconds, ANEW, "train", parts["both"], *refit, "-o", anew)
    models = {ANEW: next(anew.glob("model-*.cerp"))}
    for epochs in kind.epochs:
        label = f"updated, {epochs} epochs"
        models[label] = folder / f"{kind.name}-{epochs}.cerp"
        options = ("--epochs", epochs, "-o", models[label])
        _timed(seconds, label, "update", old, parts["new"], *options)
    judged = {
        label: _cerp("evaluate", path, "--data", parts["later"], "-k", 10)
        for label, path in models.items()
    }
    floor = _cerp("evaluate", "popularity", models[ANEW], "--data", parts["later"], "-k", 10)
    return {
        **{
            figure: {label: found[figure] for label, found in judged.items()}
            for figure in ("ndcg@10", "recall@10", "users")
        },
        "popularity_ndcg@10": floor["models"]["popularity"]["ndcg@10"],
        "cpu_seconds": seconds,
        "time_of_training_anew": {
            label: round(seconds[label] / seconds[ANEW], 4) for label in models if label != ANEW
        },
    }


def _timed(seconds: dict[str, float], label: str, *arguments: object) -> None:
    """Seconds of a processor: the machine may be shared."""
    started = _spent()
    _cerp(*arguments)
    seconds[label] = round(_spent() - started, 1)


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cerp(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "cerp.cli", *map(str, arguments), "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"cerp {' '.join(map(str, arguments))}\n{result.stderr}")
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def _movielens(folder: Path) -> dict[str, Path]:
    """ml-100k by time: 80% trained on, 10% taken in, 10% judged"""
    lines = (data_dir() / "ml-100k" / "u.data").read_text().splitlines()
    rows = sorted((line.split("\t") for line in lines), key=lambda row: int(row[3]))
    pairs = np.array([(int(user), int(item)) for user, item, *_ in rows])
    cuts = [int(share * len(pairs)) for share in (0.8, 0.9)]
    return _written(folder, *np.split(pairs, cuts))


def _some_of_gowalla(folder: Path) -> dict[str, Path]:
    """Gowalla by arrival: 1,000 users trained on, the next 250 taken in and judged by test"""
    return _gowalla(folder, *SOME)


def _all_of_gowalla(folder: Path) -> dict[str, Path]:
    """Gowalla by arrival: 23,886 users trained on, the other 5,972 taken in and judged by test"""
    return _gowalla(folder, *ALL)


def _gowalla(folder: Path, known: int, end: int) -> dict[str, Path]:
    splits = load("gowalla")
    pairs, later = (
        np.stack([part.user, part.item], axis=1) for part in (splits.train_and_valid, splits.test)
    )
    user, later_user = pairs[:, 0], later[:, 0]
    new, judged = ((known <= users) & (users < end) for users in (user, later_user))
    return _written(folder, pairs[user < known], pairs[new], later[judged])


def _written(folder: Path, first: Pairs, new: Pairs, later: Pairs) -> dict[str, Path]:
    parts = {"first": first, "new": new, "both": np.concatenate([first, new]), "later": later}
    paths = {name: folder / f"{name}.csv" for name in parts}
    for name, pairs in parts.items():
        text = "".join(f"{user},{item}\n" for user, item in pairs.tolist())
        paths[name].write_text(f"user,item\n{text}")
    return paths


if __name__ == "__main__":
    main()
