"""Forged model files through everything that Python does with one, under limits.

Whatever a file says, it is refused by name or recommends; within a second of processor time,
and in a few megabytes. A worker process has the limits: what breaks them fails there.
"""

from __future__ import annotations

import random
import re
import resource
import signal
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import numpy as np

from campaigns.corpus import model_files
from campaigns.forging import forged
from campaigns.harness import Campaign
from cerp.artifact import decode
from cerp.data.ids import Id, Ids
from cerp.errors import CerpError, FileFormatError
from cerp.runtime import Runtime
from cerp.runtime.field_lookups import FieldLookups
from cerp.runtime.lookup import Lookup

AT_ONCE = 500
CPU_SECONDS = 1.0
MAX_MEMORY = 16 << 20
"""That loading is told to keep to."""
ADDRESS_SPACE = 64 << 20
"""That the worker may take beyond what it begins with."""
SERVED_EVERY = 100
"""Every so many models are asked over HTTP too."""


class Tally(NamedTuple):
    """What became of some files."""

    models: int
    failures: list[str]


def attack(campaign: Campaign) -> None:
    """Each forged file is a case."""
    models = 0
    pool = _worker()
    for number in campaign.rounds():
        count = min(AT_ONCE, campaign.most_cases - campaign.cases)
        try:
            found = pool.submit(try_files, f"{campaign.seed} {number}", count).result()
        except BrokenProcessPool:
            found = Tally(0, [f"the worker died in round {number}"])
            pool = _worker()
        models += found.models
        campaign.cases += count
        for failure in found.failures:
            campaign.fail(f"round {number}: {failure}")
    campaign.figures |= {"models": models, "cpu_seconds_allowed": CPU_SECONDS}
    campaign.figures["memory_mb_allowed"] = ADDRESS_SPACE >> 20
    pool.shutdown()


def _worker() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, initializer=_under_limits)


def _under_limits() -> None:
    warm_up()
    used = re.findall(r"VmSize:\s+(\d+) kB", Path("/proc/self/status").read_text("utf-8"))
    most = 1024 * int(used[0]) + ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    signal.signal(signal.SIGPROF, _too_long)
    warnings.simplefilter("error")  # a number that overflows is a failure too


def warm_up() -> None:
    """Import and set up all that a case needs, so that limits are about the files."""
    for file in model_files():
        use(opened(file), random.Random(0), over_http=True)


class TooLong(BaseException):
    """A case has used its processor time."""


def _too_long(signum: int, frame: FrameType | None) -> None:
    raise TooLong


def try_files(seed: str, count: int) -> Tally:
    """Forge so many files, and use each as far as it goes."""
    rng, corpus = random.Random(f"model files {seed}"), model_files()
    failures: list[str] = []
    models = 0
    for number in range(count):
        file = forged(rng.choice(corpus), rng)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        try:
            ready = opened(file)
            models += 1
            use(ready, rng, over_http=models % SERVED_EVERY == 0)
        except CerpError:
            pass
        except (Exception, TooLong) as error:
            failures.append(f"file {number}: {type(error).__name__}: {error} {_place(error)}")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return Tally(models, failures)


def _place(error: BaseException) -> str:
    """Where in the library it happened."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/cerp/" in frame.filename]
    return f"({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""


def opened(file: bytes) -> Runtime | Lookup | FieldLookups:
    """What `cerp.load` makes of a file."""
    model = decode(file)
    made = Runtime if not model.is_lookup else Lookup if model.fields is None else FieldLookups
    return made(model, file_bytes=len(file), max_memory=MAX_MEMORY)


def use(ready: Runtime | Lookup | FieldLookups, rng: random.Random, *, over_http: bool) -> None:
    """Ask for everything that a model can be asked for; errors of ours are answers."""
    if isinstance(ready, FieldLookups):
        for field in ready.values():
            use(field, rng, over_http=over_http)
        _ask(lambda: repr(ready))
        return
    item = _drawn(ready.ids if isinstance(ready, Lookup) else ready.items, rng)
    if isinstance(ready, Lookup):
        _ask(
            lambda: ready.vectors([item]),
            lambda: ready.vectors(),
            lambda: ready.nearest(item, 5),
            lambda: repr(ready),
        )
        return
    user = item if ready.is_item_only else _drawn(ready.users, rng)
    _ask(
        lambda: ready.recommend(user, 5, exclude_seen=False),
        lambda: ready.recommend(user, 5),
        lambda: ready.recommend(user, 5, unseen_items=True),
        lambda: ready.similar_items(item, 5),
        lambda: ready.recommend_for([item], 5),
        lambda: ready.recommend_for([], 5),
        lambda: ready.score(user, [item]),
        lambda: ready.seen(user),
        lambda: ready.lists_of(np.zeros(1, dtype=np.int32), 5),
        lambda: repr(ready),
    )
    if over_http:
        _ask_over_http(ready, user, item)


def _drawn(ids: Ids, rng: random.Random) -> Id:
    drawn: Id = ids.values[[rng.randrange(len(ids))]].tolist()[0]
    return drawn


def _ask(*asks: Callable[[], object]) -> None:
    for ask in asks:
        try:
            ask()
        except FileFormatError:
            raise AssertionError("a decoded file is malformed") from None
        except CerpError:
            continue


def _ask_over_http(runtime: Runtime, user: Id, item: Id) -> None:
    from fastapi.testclient import TestClient

    from cerp.artifact import Encoding, encode
    from cerp.server.app import create_app

    app = create_app(runtime, encode(runtime.model, Encoding()))
    with TestClient(app, raise_server_exceptions=False) as client:
        for answer in (
            client.get("/recommend", params={"user": user, "exclude_seen": False}),
            client.post("/recommend", json={"users": [user], "k": 3}),
            client.post("/recommend", json={"liked": [item], "k": 3}),
            client.get("/similar", params={"item": item}),
            client.get("/items", params={"query": str(item)[:3]}),
            client.get("/history", params={"user": user}),
            client.get("/model"),
        ):
            problem = answer.json().get("error", "")
            # A model whose numbers overflow cannot be ranked, and says so.
            if answer.status_code >= 500 and "diverged" not in problem:
                raise AssertionError(f"{answer.request.url.path}: {answer.status_code} {problem}")
