"""Vectors by field and id from a file of several fields; NumPy alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from cerp.artifact import ComposedEmbedding, Index, LookupField, ShippedModel, Table
from cerp.data.ids import Float32Array, Id, Ids, Int64Array
from cerp.errors import ConfigError, DataError
from cerp.runtime.limits import MAX_MEMORY
from cerp.runtime.lookup import Lookup


class FieldLookups(Mapping[str, Lookup]):
    """The fields of a file that `cerp.nn.EmbeddingCollection.save` wrote: a `Lookup` for each name.

        fields = cerp.load("fields.cerp")
        fields["user"].vectors(["ann", "bo"])
        fields.vectors({"user": ["ann", "bo"], "item": [3, 7]})

    ``max_memory`` is that of each field, as in `Lookup`.
    """

    def __init__(
        self,
        model: ShippedModel,
        *,
        file_bytes: int | None = None,
        max_memory: int | str = MAX_MEMORY,
    ) -> None:
        if model.fields is None:
            raise ConfigError("the file holds no fields; make a Lookup or a Runtime of it")
        self.model, self.file_bytes = model, file_bytes
        self._fields: dict[str, Lookup] = {}
        start = 0
        for field in model.fields:
            own = _model_of(model, field)
            if field.table is None:
                self._fields[field.name] = _SharedField(
                    own, field.ids, start, file_bytes=file_bytes, max_memory=max_memory
                )
                start += len(field.ids)
            else:
                self._fields[field.name] = Lookup(own, file_bytes=file_bytes, max_memory=max_memory)

    def __repr__(self) -> str:
        """The fields, with how many ids each has, and the size of the file."""
        size = "" if self.file_bytes is None else f" in {self.file_bytes:,} bytes"
        fields = ", ".join(f"{name} ({len(one):,})" for name, one in self.items())
        return f"FieldLookups: {fields}; vectors of {self.dim} numbers{size}"

    def __getitem__(self, name: str) -> Lookup:
        if name not in self._fields:
            raise DataError(f"there is no field {name!r}; there are {', '.join(self._fields)}")
        return self._fields[name]

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return self.model.dim

    def vectors(self, ids: Mapping[str, Iterable[Id]] | None = None) -> dict[str, Float32Array]:
        """Vectors of the ids of fields, float32, (number of ids, dim) for each; None: of all."""
        asked = dict.fromkeys(self) if ids is None else ids
        return {name: self[name].vectors(some) for name, some in asked.items()}


class _SharedField(Lookup):
    """A field whose vectors come from the tables of all, at places from ``start`` on."""

    def __init__(
        self,
        model: ShippedModel,
        ids: Ids,
        start: int,
        *,
        file_bytes: int | None,
        max_memory: int | str,
    ) -> None:
        self._ids, self._start = ids, start
        super().__init__(model, file_bytes=file_bytes, max_memory=max_memory)

    @property
    def ids(self) -> Ids:
        return self._ids

    def _composed(self, codes: Int64Array) -> Float32Array:
        return super()._composed(codes + self._start)


def _model_of(model: ShippedModel, field: LookupField) -> ShippedModel:
    """The tables of all fields, or those of one that is stored whole."""
    alone = replace(model, fields=None)
    if field.table is None:
        return alone
    table = ComposedEmbedding((Table(Index("identity"), field.table),))
    return replace(alone, items=field.ids, embedding=table)
