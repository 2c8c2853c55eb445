"""Where the bytes of a file are. Every byte belongs to one section, so they add up."""

from __future__ import annotations

from collections.abc import Mapping

from cerp.artifact.container import Buffer, unpack

SECTIONS = (
    "codebook values",
    "positions",
    "scales",
    "order",
    "backbone",
    "graph",
    "seen",
    "ids",
    "titles",
    "header",
)
EMBEDDING_SECTIONS = ("codebook values", "positions", "scales", "order")
"""What a byte budget limits. The order is among them also where ids are stored: those are in
native order, so that no id map carries it (docs/format.md says why)."""


def section_bytes(data: Buffer) -> dict[str, int]:
    """Bytes of each section that a file has; their sum is the size of the file."""
    content = unpack(data)
    sections = dict.fromkeys(SECTIONS, 0)
    sections["header"] = content.header_bytes
    is_propagated = any(name.startswith("propagated.") for name in content.tensors)
    # Propagation cannot do without its graph; else interactions are what not to recommend again.
    needs_graph = bool(content.metadata.get("layers")) and not is_propagated
    edges = "graph" if needs_graph else "seen"
    for name, tensor in content.tensors.items():
        sections[_section(name, edges, is_propagated)] += tensor.nbytes
    return {name: count for name, count in sections.items() if count}


def embedding_bytes(sections: Mapping[str, int]) -> int:
    """The embedding as stored: values, positions, scales and the order of ids."""
    return sum(sections.get(name, 0) for name in EMBEDDING_SECTIONS)


def _section(tensor: str, edges: str, is_propagated: bool) -> str:
    kind, _, rest = tensor.partition(".")
    if kind in ("embedding", "propagated"):
        part = rest.split(".")[1]
        return "codebook values" if part == "values" else part
    if kind == "order":
        # Propagated tables are indexed by code, so that only the interactions need the order.
        return edges if is_propagated else "order"
    return {"seen": edges, "users": "ids", "items": "ids"}.get(kind, kind)
