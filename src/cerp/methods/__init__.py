"""The compression methods, by name. A new one is one file and one line here."""

from __future__ import annotations

from cerp.embeddings.dhe import DeepHashEmbedding
from cerp.embeddings.hashed import HashedEmbedding
from cerp.embeddings.qr import QuotientRemainderEmbedding
from cerp.embeddings.ud import UniformEmbedding
from cerp.errors import ConfigError
from cerp.methods.base import Context, Found, Method, Search
from cerp.methods.plain import Fitted, Full
from cerp.methods.pruned import Cerp, Magnitude, Pep

__all__ = ["METHODS", "Context", "Found", "Method", "Search", "method"]

METHODS: dict[str, Method] = {
    "cerp": Cerp(),
    "dhe": Fitted(DeepHashEmbedding),
    "full": Full(),
    "hash": Fitted(HashedEmbedding),
    "magnitude": Magnitude(),
    "pep": Pep(),
    "qr": Fitted(QuotientRemainderEmbedding, is_ordered=True),
    "ud": Fitted(UniformEmbedding),
}


def method(name: str) -> Method:
    """A method by name."""
    if name not in METHODS:
        raise ConfigError(f"unknown method {name!r}; choose one of {', '.join(METHODS)}")
    return METHODS[name]
