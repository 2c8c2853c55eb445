"""Where the bytes of a file are. Every byte belongs to one section, so they add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from cerp.artifact.container import Buffer, unpack
from cerp.artifact.sections import SECTIONS, section_of


def section_bytes(data: Buffer) -> dict[str, int]:
    """Bytes of each section that a file has; their sum is the size of the file."""
    content = unpack(data)
    is_propagated = any(name.startswith("propagated.") for name in content.tensors)
    # Propagation and filter cannot do without the graph; else interactions are what not to
    # recommend again.
    propagates = bool(content.metadata.get("layers")) and not is_propagated
    needs_graph = propagates or content.metadata.get("filter") is not None
    found = Counter(header=content.header_bytes)
    for tensor, values in content.tensors.items():
        name = section_of(tensor)
        # Propagated tables are indexed by code, so that only the interactions need the order.
        if name == "graph" or (name == "order" and is_propagated):
            name = "graph" if needs_graph else "seen"
        found[name] += values.nbytes
    order = dict.fromkeys([section.name for section in SECTIONS] + sorted(found))
    return {name: found[name] for name in order if found[name]}


def embedding_bytes(sections: Mapping[str, int]) -> int:
    """The embedding as stored: values, positions, scales and the order of ids."""
    return sum(sections.get(section.name, 0) for section in SECTIONS if section.is_embedding)
