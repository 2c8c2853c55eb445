"""What goes over the wire, and how much of it: every list and number has a bound.

Ids are the caller's own: integers or strings, as in the data the model was
trained on. Where a model has integer ids, their decimal text is taken too.
"""

from __future__ import annotations

from typing import Annotated, Self

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

MAX_BODY_BYTES = 1_000_000
MAX_K = 1000
MAX_USERS = 1024
MAX_LISTED = 100_000
"""Items in all lists of one answer."""
MAX_ITEMS = 10_000
MAX_ID_LENGTH = 1000
MAX_FOUND = 50
"""Ids that a search returns at most."""

TextId = Annotated[str, StringConstraints(min_length=1, max_length=MAX_ID_LENGTH)]
AnyId = Annotated[int, Field(strict=True)] | TextId
GivenId = Annotated[int, Field(strict=True)] | str
"""An id of the model, as long as it may be: only requests have bounds."""
Items = Annotated[list[AnyId], Field(max_length=MAX_ITEMS)]

K = Annotated[int, Query(ge=1, le=MAX_K, description="How many items to return at most.")]
IdQuery = Annotated[str, Query(min_length=1, max_length=MAX_ID_LENGTH)]
SearchQuery = Annotated[str, Query(max_length=200, description="Start of an id, part of a title.")]


class _Request(BaseModel):
    # A misspelt field would otherwise be ignored in silence.
    model_config = ConfigDict(extra="forbid")


class RecommendRequest(_Request):
    """Either users known from training, or the items that someone new likes."""

    users: Annotated[list[AnyId], Field(min_length=1, max_length=MAX_USERS)] | None = None
    liked: Items | None = Field(default=None, description="None of them: the popular items.")
    k: Annotated[int, Field(ge=1, le=MAX_K)] = 10
    exclude_seen: bool = True
    exclude: Items = Field(default=[], description="Items not to recommend.")
    candidates: Items | None = Field(default=None, description="Recommend among these only.")
    unseen_items: bool = Field(
        default=False, description="Whether lists may hold items that training never saw."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.users is None) == (self.liked is None):
            raise ValueError("give either 'users' or 'liked'")
        if len(self.users or ()) * self.k > MAX_LISTED:
            raise ValueError(
                f"{len(self.users or ())} users and k = {self.k} ask for too much at once; "
                f"an answer has at most {MAX_LISTED:,} items in all"
            )
        return self


class ScoreRequest(_Request):
    """One user, and items to score."""

    user: AnyId
    items: Annotated[Items, Field(min_length=1)]


class Named(BaseModel):
    """An id, and what to call it where the model has titles."""

    id: GivenId
    title: str | None = None


class Scored(Named):
    """An item and its score."""

    score: float


class Recommendations(BaseModel):
    """The best items, best first; ``user`` is null for someone described by liked items."""

    user: GivenId | None
    items: list[Scored]
    error: str | None = Field(default=None, description="Why there is no list for this user.")


class RecommendResponse(BaseModel):
    """One list for every user asked for, in that order."""

    results: list[Recommendations]


class SimilarResponse(BaseModel):
    """Items by the cosine of their vectors to those of ``item``, best first."""

    item: Named
    items: list[Scored]


class ScoreResponse(BaseModel):
    """Scores in the order of the items asked for."""

    user: AnyId
    scores: list[float]


class History(BaseModel):
    """Training items of a user: the first of them, and how many there are."""

    user: AnyId
    total: int
    items: list[Named]


class SearchResponse(BaseModel):
    """What a search found."""

    found: list[Named]


class ModelCard(BaseModel):
    """What the page says about the model."""

    name: str
    facts: dict[str, object]
    backbone: str
    users: int
    items: int
    dim: int
    has_history: bool
    excludes_seen: bool
    can_download: bool
    takes_liked_items: bool
    knows_popular_items: bool
    total_bytes: int
    sections: dict[str, int]
    full_table_bytes: int


class Health(BaseModel):
    """The server answers."""

    status: str = "ok"


class Problem(BaseModel):
    """Every error has this shape."""

    error: str
