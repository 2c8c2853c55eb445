"""The `.cerp` file: a trained model in as few bytes as it takes, and nothing that can run.

`ShippedModel` is the model as plain arrays; `write` and `read` are the way to
a file and back, `encode` and `decode` the same for bytes. docs/format.md
describes every byte.
"""

from cerp.artifact.codes import code_bytes
from cerp.artifact.embedding import table_bytes
from cerp.artifact.file import (
    Encoding,
    StoredVectors,
    decode,
    decode_vectors,
    encode,
    read,
    read_whole,
    write,
)
from cerp.artifact.model import (
    ColdStart,
    ComposedEmbedding,
    LookupField,
    Projection,
    PropagatedTables,
    Seen,
    ShippedModel,
    Table,
    Tastes,
)
from cerp.artifact.permutation import permutation_size as order_bytes
from cerp.artifact.quantize import VALUES_CODECS, ValuesCodec
from cerp.artifact.scoring_words import backbone_name, scoring_word
from cerp.artifact.sizes import embedding_bytes, section_bytes
from cerp.artifact.usage import usage
from cerp.assignment.index import Index
from cerp.assignment.usage import Usage
from cerp.graph.term import FilterTerm, Mixing
from cerp.graph.term_facts import term_facts

__all__ = [
    "VALUES_CODECS",
    "ColdStart",
    "ComposedEmbedding",
    "Encoding",
    "FilterTerm",
    "Index",
    "LookupField",
    "Mixing",
    "Projection",
    "PropagatedTables",
    "Seen",
    "ShippedModel",
    "StoredVectors",
    "Table",
    "Tastes",
    "Usage",
    "ValuesCodec",
    "backbone_name",
    "code_bytes",
    "decode",
    "decode_vectors",
    "embedding_bytes",
    "encode",
    "order_bytes",
    "read",
    "read_whole",
    "scoring_word",
    "section_bytes",
    "table_bytes",
    "term_facts",
    "usage",
    "write",
]
