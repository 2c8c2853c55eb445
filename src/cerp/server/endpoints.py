"""The endpoints: each asks the runtime and puts the answer into its schema.

A single list of a quick model takes about a millisecond of NumPy and is made on
the event loop, where handing it to a thread would cost more than it frees. Lists
of slow models, batches, tastes and searches are made by threads beside it (`cerp.server.work`),
batches in bounded steps, so that other requests need not wait for them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from json.encoder import encode_basestring
from math import isfinite
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from cerp.data.ids import Id, Ids
from cerp.errors import ScoreError
from cerp.runtime import Recommendation, Runtime
from cerp.server.assets import Document
from cerp.server.metrics import RequestFigures
from cerp.server.options import ServeOptions
from cerp.server.schemas import (
    MAX_FOUND,
    MAX_K,
    Health,
    History,
    IdQuery,
    K,
    ModelCard,
    Named,
    Problem,
    Recommendations,
    RecommendRequest,
    RecommendResponse,
    Scored,
    ScoreRequest,
    ScoreResponse,
    SearchQuery,
    SearchResponse,
    SimilarResponse,
)
from cerp.server.search import IdSearch
from cerp.server.work import Work

QUICK = 2**23
"""Multiplications for a list, up to which it is made on the event loop: a few milliseconds."""
STEP = 2**28
"""Multiplications of one step of a batch: some 50 milliseconds of a thread."""
LISTED_AT_ONCE = 1024
"""Items in the lists of one step, which become objects and text."""
SHORT_BODY = 2**14
"""Bytes of JSON that are parsed on the event loop: a fraction of a millisecond."""
Answer = TypeVar("Answer")
Results = list[tuple[Id | None, list[Recommendation] | None]]
"""For each user the list, or None for one who is not known; no user for a list by liked items."""
UNKNOWN = '"items":[],"error":"unknown user; only users of the training data are known"'


@dataclass(frozen=True)
class Served:
    """What the endpoints work with."""

    runtime: Runtime
    file: Document
    card: ModelCard
    metrics: RequestFigures
    users: IdSearch
    items: IdSearch
    titles: Mapping[Id, str]
    work: Work
    options: ServeOptions

    async def answer(self, make: Callable[[], Answer]) -> Answer:
        """One list, made at once where that is quick and few wait, else in a thread."""
        if self.runtime.multiplications <= QUICK and not self.work.is_crowded:
            return make()
        return await self.work.run(make)

    def named(self, item: Id) -> Named:
        """An item with its title."""
        return Named(id=item, title=self.titles.get(item))

    def scored(self, best: Iterable[Recommendation]) -> list[Scored]:
        """Items with titles and scores."""
        return [Scored(id=item, title=self.titles.get(item), score=score) for item, score in best]


async def _served(request: Request) -> Served:
    served: Served = request.app.state.served
    return served


class _RequestWithBody(Request):
    async def json(self) -> Any:
        """As always, but long texts are parsed by a thread."""
        body = await self.body()
        if len(body) <= SHORT_BODY:
            return json.loads(body)
        served: Served = self.app.state.served
        return await served.work.run(lambda: json.loads(body))


class _Route(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            return await handle(_RequestWithBody(request.scope, request.receive))

        return handled


Given = Annotated[Served, Depends(_served)]
router = APIRouter(
    route_class=_Route,
    responses={status: {"model": Problem} for status in (400, 404, 408, 413, 422, 500, 503)},
)


@router.get("/recommend", response_model_exclude_unset=True)
async def recommend(
    served: Given,
    user: IdQuery,
    k: K = 10,
    exclude_seen: bool = True,
    unseen_items: bool = False,
) -> Recommendations:
    """The best items for one user."""
    runtime = served.runtime
    known = runtime.users.of_kind(user)
    best = await served.answer(
        lambda: runtime.recommend(known, k, exclude_seen=exclude_seen, unseen_items=unseen_items)
    )
    return Recommendations(user=known, items=served.scored(best))


@router.post("/recommend", response_model=RecommendResponse)
async def recommend_many(served: Given, asked: RecommendRequest) -> Response:
    """The best items for several users, or for someone new from the items they like."""
    if asked.liked is not None:
        parts = [await served.work.run_batch(lambda: _written(_of_taste(served, asked), served))]
    else:
        served.runtime.refuse_without_users()
        users = as_ids(served.runtime.users, asked.users or ())
        if not served.runtime.users.known(users).any():
            served.runtime.users.encode(users, what="user")  # nobody is known: an error says so
        size = _users_at_once(served.runtime.multiplications, asked.k)
        parts = []
        for start in range(0, len(users), size):
            step = users[start : start + size]
            parts.append(
                await served.work.run_batch(partial(_written_of_users, served, asked, step))
            )
    body = await served.work.run_batch(partial(_answer_of, parts))
    return Response(body, media_type="application/json")


def _answer_of(parts: list[bytes]) -> bytes:
    """The whole answer; the parts are gone then, for there are many answers at a time."""
    body = b",".join(parts)
    parts.clear()
    return b'{"results":[%s]}' % body


def _users_at_once(multiplications: int, k: int) -> int:
    return max(1, min(STEP // max(1, multiplications), LISTED_AT_ONCE // k))


def _written(results: Results, served: Served) -> bytes:
    """Lists as JSON, by the thread that made them: a long text would hold up the event loop."""
    titles = served.titles
    text = ",".join(
        f'{{"user":{_json(user)},{UNKNOWN}}}'
        if best is None
        else f'{{"user":{_json(user)},"items":['
        + ",".join(
            [
                f'{{"id":{_json(item)},"title":{_json(titles.get(item))},"score":{score!r}}}'
                for item, score in _finite(best)
            ]
        )
        + "]}"
        for user, best in results
    )
    return text.encode()


def _json(value: Id | None) -> str:
    if value is None:
        return "null"
    return encode_basestring(value) if isinstance(value, str) else str(value)


def _finite(best: list[Recommendation]) -> list[Recommendation]:
    """Scores that JSON can hold: a tower that has diverged makes others."""
    if not all(isfinite(score) for _, score in best):
        raise ScoreError("the scores of a user are not finite; the model has diverged in training")
    return best


def _written_of_users(served: Served, asked: RecommendRequest, users: Sequence[Id]) -> bytes:
    return _written(_of_users(served, asked, users), served)


def _of_users(served: Served, asked: RecommendRequest, users: Sequence[Id]) -> Results:
    runtime = served.runtime
    known = list(itertools.compress(users, runtime.users.known(users)))
    lists = runtime.recommend_many(
        known,
        asked.k,
        exclude_seen=asked.exclude_seen,
        exclude=as_ids(runtime.items, asked.exclude),
        candidates=_candidates(served, asked),
        unseen_items=asked.unseen_items,
    )
    found = dict(zip(known, lists, strict=True))
    return [(user, found.get(user)) for user in users]


def _candidates(served: Served, asked: RecommendRequest) -> list[Id] | None:
    return None if asked.candidates is None else as_ids(served.runtime.items, asked.candidates)


def _of_taste(served: Served, asked: RecommendRequest) -> Results:
    runtime = served.runtime
    best = runtime.recommend_for(
        as_ids(runtime.items, asked.liked or ()),
        asked.k,
        exclude_seen=asked.exclude_seen,
        exclude=as_ids(runtime.items, asked.exclude),
        candidates=_candidates(served, asked),
        unseen_items=asked.unseen_items,
    )
    return [(None, best)]


@router.get("/similar")
async def similar(served: Given, item: IdQuery, k: K = 10) -> SimilarResponse:
    """The items most like one item."""
    runtime = served.runtime
    known = runtime.items.of_kind(item)
    best = await served.answer(lambda: runtime.similar_items(known, k))
    return SimilarResponse(item=served.named(known), items=served.scored(best))


@router.post("/score")
async def score(served: Given, asked: ScoreRequest) -> ScoreResponse:
    """Scores of given items for one user."""
    runtime = served.runtime
    user = runtime.users.of_kind(asked.user)
    items = as_ids(runtime.items, asked.items)
    scores = await served.work.run(lambda: runtime.score(user, items).tolist())
    return ScoreResponse(user=user, scores=scores)


@router.get("/history")
async def history(served: Given, user: IdQuery) -> History:
    """Training items of a user."""
    if not served.options.history:
        raise HTTPException(404, "this server does not tell what users have in training")
    known = served.runtime.users.of_kind(user)
    items = await served.work.run(lambda: served.runtime.seen(known))
    return History(
        user=known, total=len(items), items=[served.named(item) for item in items[:MAX_K]]
    )


@router.get("/users")
async def users(served: Given, query: SearchQuery = "") -> SearchResponse:
    """Users whose id starts with the query."""
    codes = await served.work.run(lambda: served.users.find(query, MAX_FOUND))
    return SearchResponse(found=[Named(id=user) for user in served.runtime.users.decode(codes)])


@router.get("/items")
async def items(served: Given, query: SearchQuery = "") -> SearchResponse:
    """Items whose id starts with the query or whose title contains it."""
    codes = await served.work.run(lambda: served.items.find(query, MAX_FOUND))
    return SearchResponse(found=[served.named(item) for item in served.runtime.items.decode(codes)])


@router.get("/model")
async def model(served: Given) -> ModelCard:
    """What the model is, and where its bytes are."""
    return served.card


@router.get("/model.cerp", response_class=Response)
async def model_file(served: Given, request: Request) -> Response:
    """The very file, for runtimes elsewhere: the page runs it in the browser."""
    if not served.options.download:
        raise HTTPException(404, "this server does not hand out its file")
    return served.file.respond(request)


@router.get("/models")
async def models(request: Request) -> dict[str, ModelCard]:
    """The models of a server that has several, by name; they answer below /models/<name>."""
    beside = getattr(request.app.state, "models", {})
    return {name: app.state.served.card for name, app in beside.items()}


@router.get("/health")
async def health() -> Health:
    """Whether the server answers."""
    return Health()


@router.get("/metrics", response_class=Response)
async def metrics(served: Given) -> Response:
    """For Prometheus."""
    return Response(served.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def as_ids(ids: Ids, given: Sequence[Id]) -> list[Id]:
    """Several ids as the model has them."""
    return [ids.of_kind(one) for one in given]
