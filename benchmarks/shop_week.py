"""One week of a shop on MovieLens-100K: train, serve, list, take in, reload, judge; a table.

    CERP_DATA_DIR=... python benchmarks/shop_week.py [options of cerp train: --method filter]

Without options: LightGCN with learned codes at 95%, small and short, so that the week is over soon.
The first 70% of the rows by time are there on day 0, when a model is trained and served. The rest
comes in six equal days. Every night lists are made for everybody, the day's rows are taken in
(`cerp update`), and the file under the server is replaced while requests keep coming; the next day
judges the model of the night on the rows that it could not know, beside popularity and what was
popular today; and, on those of users and items that were there on day 0, the model of day 0 beside
it. Few users come back the next day, so the last row is the mean over the users of all days. Every
request must be answered. Adds to results/shop_week.json, by kind of model.

All of it goes through the command line, as a shop would; what was popular today is counted here.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from machine import RESULTS, machine, write_figures

from cerp.cli.later import known_to
from cerp.data.datasets import data_dir
from cerp.data.readers import read
from cerp.evaluation.evaluate import evaluate
from cerp.evaluation.later import later_rows
from cerp.runtime import load

DAYS, FIRST_SHARE = 6, 0.7
QUICK = ("--budget", "95%", "--dim", "64", "--prune-epochs", "8", "--epochs", "16")
CHOSEN = tuple(sys.argv[1:]) or QUICK
TRAIN = (*CHOSEN, "--protocol", "time", "--refit", "all")
JUDGED = ("popularity", "popular today", "updated")
"""By users who come back the next day."""
COLUMNS = ("day", "rows", "new users", "new items", "list rows", "seconds to list",
           "seconds to update", "seconds to reload", "requests", "failed",
           "users judged", *JUDGED, "day 0, known rows", "updated, known rows")  # fmt: skip


def main() -> None:
    """Play the week, print the table and write the figures; fail if a request did."""
    with tempfile.TemporaryDirectory() as folder:
        week = Week(Path(folder))
        rows = week.play()
    path = RESULTS / "shop_week.json"
    kept: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    kind = CHOSEN[CHOSEN.index("--method") + 1] if "--method" in CHOSEN else "lightgcn"
    kept[kind] = {
        "train": " ".join(TRAIN),
        "train_seconds": week.train_seconds,
        "metric": "ndcg@10 on the next day's rows of users and items that the updated model knows; "
        "known rows: of those that the model of day 0 knows too, so that both are judged alike",
        "days": rows,
        "week": _over_users(rows),
        "machine": machine("numpy", "torch"),
    }
    write_figures(path, kept)
    print("  ".join(COLUMNS))
    for row in (*rows, {"day": "all", **_over_users(rows)}):
        print("  ".join(str(row.get(name, "")).rjust(len(name)) for name in COLUMNS))
    if any(row["failed"] for row in rows):
        raise SystemExit("some requests were not answered")


def _over_users(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean over everyone judged in the week."""
    users = [row["users judged"] for row in rows]
    means = {name: np.average([row[name] for row in rows], weights=users) for name in JUDGED}
    return {"users judged": sum(users), **{name: round(one, 4) for name, one in means.items()}}


class Week:
    """A folder with the files of every day, and a server that runs through it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.train_seconds = 0.0
        self.days = _days(folder)

    def play(self) -> list[dict[str, Any]]:
        """A row for every day."""
        started = time.perf_counter()
        run = self.folder / "run"
        cerp("train", self.days[0], *TRAIN, "-o", run)
        self.train_seconds = round(time.perf_counter() - started, 1)
        first = next(run.glob("model-*.cerp"))
        served, current = self.folder / "served.cerp", first
        shutil.copy(first, served)
        rows = []
        with Server(served) as server, Requests(server.url) as requests:
            for number in range(1, DAYS):
                today, tomorrow = self.days[number], self.days[number + 1]
                lists, list_seconds = timed(
                    *("recommend", current, "--all-users", "-k", 50, "--history", today),
                    *("-o", self.folder / f"lists-{number}.parquet"),
                )
                following = self.folder / f"model-{number}.cerp"
                told, update_seconds = timed("update", current, today, "-o", following)
                reload_seconds = server.take(following)
                current = following
                counted, failed = requests.count()
                judged = cerp("evaluate", "popularity", current, "--data", tomorrow, "-k", 10)
                known = self._of_day_0(tomorrow)
                old = cerp("evaluate", first, "--data", known, "-k", 10)
                new = cerp("evaluate", current, "--data", known, "-k", 10)
                figures = [
                    told["new_interactions"], told["new_users"], told["new_items"],
                    lists["rows"], list_seconds, update_seconds, reload_seconds, counted, failed,
                    judged["models"]["popularity"]["users"],
                    round(judged["models"]["popularity"]["ndcg@10"], 4),
                    round(_popular(today, current, tomorrow), 4),
                    round(judged["models"][str(current)]["ndcg@10"], 4),
                    round(old["ndcg@10"], 4),
                    round(new["ndcg@10"], 4),
                ]  # fmt: skip
                rows.append(dict(zip(COLUMNS, [number, *figures], strict=True)))
        return rows

    def _of_day_0(self, day: Path) -> Path:
        """The rows of a day whose users and items were there on day 0."""
        (users, items), (header, *rows) = _sides(self.days[0]), day.read_text().splitlines()
        kept = [row for row in rows if row.split(",")[0] in users and row.split(",")[1] in items]
        path = day.with_stem(f"{day.stem}-known")
        path.write_text("\n".join([header, *kept]) + "\n")
        return path


@dataclass(frozen=True)
class PopularToday:
    """The same list for everybody: what most took today."""

    counts: npt.NDArray[np.float32]

    def score_all(self, users: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """How many took each item, once for each user."""
        return np.tile(self.counts, (len(users), 1))


def _popular(today: Path, model: Path, tomorrow: Path) -> float:
    """NDCG@10 of what was popular today, on the rows that the model is judged on."""
    runtime = load(model)
    rows = read(today, time=False)
    taken = dict(zip(rows.items.values.tolist(), rows.item_counts.tolist(), strict=True))
    counts = [taken.get(item, 0) for item in runtime.items.values.tolist()]
    judged = later_rows(known_to(runtime), read(tomorrow, time=False)).splits
    scorer = PopularToday(np.array(counts, dtype=np.float32))
    return evaluate(scorer, judged, on="test", ks=[10]).mean["ndcg@10"]


class Server:
    """`cerp serve` on a file that is replaced."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __enter__(self) -> Server:
        command = [sys.executable, "-m", "cerp.cli", "serve", str(self.file), "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        found = re.search(r"http://\S+", self.process.stderr.readline())
        assert found, "the server did not start"
        self.url = found[0]
        return self

    def take(self, model: Path) -> float:
        """Put a model in the place of the one before; seconds until it answers."""
        started = time.perf_counter()
        scratch = self.file.with_suffix(".part")
        shutil.copy(model, scratch)
        scratch.replace(self.file)
        assert self.process.stderr is not None
        told = self.process.stderr.readline()
        assert told.startswith("reloaded"), told
        return round(time.perf_counter() - started, 2)

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()


class Requests:
    """Someone who asks all the time."""

    def __init__(self, url: str) -> None:
        self.url, self.done, self.failed, self.ended = url, 0, 0, False
        self.thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        while not self.ended:
            try:
                with urllib.request.urlopen(f"{self.url}/recommend?user=405&k=10") as answer:
                    json.load(answer)
            except OSError:
                self.failed += 1
            self.done += 1
            time.sleep(0.02)

    def count(self) -> tuple[int, int]:
        """Since it was asked last: all, and those without an answer."""
        found = self.done, self.failed
        self.done = self.failed = 0
        return found

    def __enter__(self) -> Requests:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended = True
        self.thread.join()


def cerp(*arguments: object) -> dict[str, Any]:
    """What a command says in JSON."""
    command = [sys.executable, "-m", "cerp.cli", *map(str, arguments), "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"cerp {' '.join(map(str, arguments))}\n{result.stderr}")
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def timed(*arguments: object) -> tuple[dict[str, Any], float]:
    """The same, and how many seconds it took."""
    started = time.perf_counter()
    found = cerp(*arguments)
    return found, round(time.perf_counter() - started, 2)


def _sides(path: Path) -> list[set[str]]:
    """The users and the items of a file of rows."""
    rows = [row.split(",") for row in path.read_text().splitlines()[1:]]
    return [{row[side] for row in rows} for side in (0, 1)]


def _days(folder: Path) -> list[Path]:
    """MovieLens-100K by time: a file for day 0, and one for each day after."""
    lines = (data_dir() / "ml-100k" / "u.data").read_text().splitlines()
    rows = sorted((line.split("\t") for line in lines), key=lambda row: int(row[3]))
    first = int(FIRST_SHARE * len(rows))
    size = (len(rows) - first) // DAYS
    starts = [0, *(first + size * day for day in range(DAYS)), len(rows)]
    paths = []
    for day, (start, end) in enumerate(pairwise(starts)):
        path = folder / f"day-{day}.csv"
        text = "".join(f"{user},{item},{when}\n" for user, item, _, when in rows[start:end])
        path.write_text(f"user,item,time\n{text}")
        paths.append(path)
    return paths


if __name__ == "__main__":
    main()
