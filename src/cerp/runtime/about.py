"""What a shipped model says about itself: who is in it, how it scores, how good it was."""

from __future__ import annotations

from cerp.artifact.model import ShippedModel
from cerp.data.ids import Ids


class AboutModel:
    """The facts of a model, for whoever holds it and, where it is known, the size of its file."""

    model: ShippedModel
    file_bytes: int | None

    def __repr__(self) -> str:
        """Who is in it, how it scores, what it takes, and how good it was."""
        size = None if self.file_bytes is None else f"{self.file_bytes:,} bytes"
        precision = None if self.model.precision is None else f"values in {self.model.precision}"
        ndcg = self.test_ndcg
        numbers = f", {self.model.dim} numbers a vector" if self.model.embedding else ""
        who = "no users, " if self.is_item_only else f"{len(self.users):,} users x "
        lines = [
            f"Runtime: {who}{len(self.items):,} items",
            f"  scores: {self.scoring}{numbers}",
            f"  file: {', '.join(filter(None, (size, precision)))}" if size or precision else None,
            None if ndcg is None else f"  test NDCG@10: {ndcg:.4f}",
        ]
        return "\n".join(line for line in lines if line is not None)

    @property
    def users(self) -> Ids:
        """Original ids of the users there are."""
        return self.model.users

    @property
    def items(self) -> Ids:
        """Original ids of the items there are."""
        return self.model.items

    @property
    def titles(self) -> list[str] | None:
        """What to call items, in the order of `items`, where the file says it."""
        return self.model.titles

    @property
    def trained_on(self) -> str | None:
        """The fingerprint of its training data, where the file says it."""
        found = self.model.facts.get("fingerprint")
        return found if isinstance(found, str) else None

    @property
    def test_ndcg(self) -> float | None:
        """NDCG@10 on the test part when it was trained, where the file says it."""
        found: object = self.model.facts
        for key in ("metrics", "test", "ndcg@10"):
            found = found.get(key) if isinstance(found, dict) else None
        return float(found) if isinstance(found, int | float) else None

    @property
    def is_item_only(self) -> bool:
        """Whether it knows items and no users: then `recommend_for` is the way to ask."""
        return self.model.is_item_only

    @property
    def scoring(self) -> str:
        """How a score comes about, in words."""
        if self.model.neighbours is not None:
            return "weights between items"
        is_sharp = self.model.filter is not None and self.model.filter.sharpening is not None
        paths = "sharpened graph filter" if is_sharp else "graph filter"
        if self.model.head is None:
            return paths
        words = "dot product" if self.model.head == "dot" else "tower (MLP)"
        if self.model.sums is not None:
            words += " with the sum of one's items"
        layers = self.model.layers
        passes = "1 layer" if layers == 1 else f"{layers} layers"
        words += f" after {passes} of propagation" if layers else ""
        return words if self.model.filter is None else f"{words}, with {paths}"
