"""Requests made from the server's own OpenAPI, by schemathesis: every answer is one it documents.

No status of 500 or above, no status or content type that /openapi.json does not name, no body that
its schema does not allow; what the schema forbids is refused.
"""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from campaigns.harness import Campaign
from cerp.artifact import Encoding, encode
from cerp.export.item_only import items_only
from cerp.runtime import Runtime
from cerp.server.app import create_app
from small_cold_start import cold_model
from small_filters import small_filter
from small_models import small_model
from small_neighbours import small_neighbours

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
AT_ONCE = 50
"""Requests for each endpoint in a round."""


def attack(campaign: Campaign) -> None:
    """Each request is a case."""
    models = [
        *(small_model(backbone) for backbone in ("lightgcn", "mlp")),
        *(small_filter(), small_neighbours(), cold_model(), items_only(cold_model())),
    ]
    apps = [create_app(Runtime(model), encode(model, Encoding())) for model in models]
    schemas = [schemathesis.openapi.from_asgi("/openapi.json", app) for app in apps]
    for number in campaign.rounds():
        schema = schemas[number % len(schemas)]
        for operation in schema.get_all_operations():
            if not campaign.is_over:
                _try(campaign, operation.ok(), number)  # type: ignore[union-attr]


def _try(campaign: Campaign, operation: Any, number: int) -> None:
    @seeded(f"{campaign.seed} {number}")
    @settings(
        max_examples=AT_ONCE,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Any) -> None:
        campaign.cases += 1
        case.call_and_validate(checks=CHECKS)

    try:
        given(case=operation.as_strategy())(ask)()
    except (Failure, FailureGroup, AssertionError) as error:
        campaign.fail(f"{operation.method.upper()} {operation.path}: {str(error)[:600]}")
