"""What the page says about the model: sizes, origin, abilities, and where its bytes are."""

from __future__ import annotations

from cerp.artifact import backbone_name, section_bytes
from cerp.runtime import Runtime
from cerp.server.options import ServeOptions
from cerp.server.schemas import ModelCard

FLOAT32_BYTES = 4


def model_card(
    runtime: Runtime, file: bytes, name: str, options: ServeOptions | None = None
) -> ModelCard:
    """The full table has (users + items) · dim values in fp32."""
    model, options = runtime.model, options or ServeOptions()
    dim = model.dim
    return ModelCard(
        name=name,
        facts=model.facts,
        backbone=backbone_name(model),
        users=len(model.users),
        items=len(model.items),
        dim=dim,
        has_history=model.seen is not None and options.history,
        can_download=options.download,
        excludes_seen=model.seen is not None,
        takes_liked_items=runtime.takes_liked_items,
        knows_popular_items=runtime.knows_popular_items,
        total_bytes=len(file),
        sections=section_bytes(file),
        full_table_bytes=(len(model.users) + len(model.items)) * dim * FLOAT32_BYTES,
    )
