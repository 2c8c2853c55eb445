"""The endpoints: each asks the runtime and puts the answer into its schema.

A single list of a quick model takes about a millisecond of NumPy and is made on
the event loop, where handing it to a thread would cost more than it frees. Lists
of slow models, batches, tastes and searches are made in the thread pool, so that
other requests need not wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from fastapi.concurrency import run_in_threadpool

from cerp.data.ids import Id, Ids
from cerp.runtime import Recommendation, Runtime
from cerp.server.assets import Document
from cerp.server.metrics import RequestFigures
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

QUICK = 2**23
"""Multiplications for a list, up to which it is made on the event loop: a few milliseconds."""
Answer = TypeVar("Answer")


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

    async def answer(self, make: Callable[[], Answer]) -> Answer:
        """One list, made at once where that is quick, else in a thread."""
        if self.runtime.multiplications <= QUICK:
            return make()
        return await run_in_threadpool(make)

    def named(self, item: Id) -> Named:
        """An item with its title."""
        return Named(id=item, title=self.titles.get(item))

    def scored(self, best: Iterable[Recommendation]) -> list[Scored]:
        """Items with titles and scores."""
        return [Scored(id=item, title=self.titles.get(item), score=score) for item, score in best]


async def _served(request: Request) -> Served:
    served: Served = request.app.state.served
    return served


Given = Annotated[Served, Depends(_served)]
router = APIRouter(
    responses={status: {"model": Problem} for status in (400, 404, 413, 422)},
)


@router.get("/recommend")
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
def recommend_many(served: Given, asked: RecommendRequest) -> Response:
    """The best items for several users, or for someone new from the items they like."""
    answer = _of_users if asked.liked is None else _of_taste
    # Written out here, in a thread: a large answer must not hold up the event loop.
    body = RecommendResponse(results=answer(served, asked)).model_dump_json()
    return Response(body, media_type="application/json")


def _of_users(served: Served, asked: RecommendRequest) -> list[Recommendations]:
    runtime = served.runtime
    users = as_ids(runtime.users, asked.users or ())
    lists = runtime.recommend_many(
        users,
        asked.k,
        exclude_seen=asked.exclude_seen,
        exclude=as_ids(runtime.items, asked.exclude),
        candidates=_candidates(served, asked),
        unseen_items=asked.unseen_items,
    )
    return [
        Recommendations(user=user, items=served.scored(best))
        for user, best in zip(users, lists, strict=True)
    ]


def _candidates(served: Served, asked: RecommendRequest) -> list[Id] | None:
    return None if asked.candidates is None else as_ids(served.runtime.items, asked.candidates)


def _of_taste(served: Served, asked: RecommendRequest) -> list[Recommendations]:
    runtime = served.runtime
    best = runtime.recommend_for(
        as_ids(runtime.items, asked.liked or ()),
        asked.k,
        exclude_seen=asked.exclude_seen,
        exclude=as_ids(runtime.items, asked.exclude),
        candidates=_candidates(served, asked),
        unseen_items=asked.unseen_items,
    )
    return [Recommendations(user=None, items=served.scored(best))]


@router.get("/similar")
async def similar(served: Given, item: IdQuery, k: K = 10) -> SimilarResponse:
    """The items most like one item."""
    runtime = served.runtime
    known = runtime.items.of_kind(item)
    best = await served.answer(lambda: runtime.similar_items(known, k))
    return SimilarResponse(item=served.named(known), items=served.scored(best))


@router.post("/score")
def score(served: Given, asked: ScoreRequest) -> ScoreResponse:
    """Scores of given items for one user."""
    runtime = served.runtime
    user = runtime.users.of_kind(asked.user)
    scores = runtime.score(user, as_ids(runtime.items, asked.items))
    return ScoreResponse(user=user, scores=scores.tolist())


@router.get("/history")
def history(served: Given, user: IdQuery) -> History:
    """Training items of a user."""
    known = served.runtime.users.of_kind(user)
    items = served.runtime.seen(known)
    return History(
        user=known, total=len(items), items=[served.named(item) for item in items[:MAX_K]]
    )


@router.get("/users")
def users(served: Given, query: SearchQuery = "") -> SearchResponse:
    """Users whose id starts with the query."""
    codes = served.users.find(query, MAX_FOUND)
    return SearchResponse(found=[Named(id=user) for user in served.runtime.users.decode(codes)])


@router.get("/items")
def items(served: Given, query: SearchQuery = "") -> SearchResponse:
    """Items whose id starts with the query or whose title contains it."""
    codes = served.items.find(query, MAX_FOUND)
    return SearchResponse(found=[served.named(item) for item in served.runtime.items.decode(codes)])


@router.get("/model")
async def model(served: Given) -> ModelCard:
    """What the model is, and where its bytes are."""
    return served.card


@router.get("/model.cerp", response_class=Response)
async def model_file(served: Given, request: Request) -> Response:
    """The very file, for runtimes elsewhere: the page runs it in the browser."""
    return served.file.respond(request)


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
