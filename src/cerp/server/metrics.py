"""Prometheus metrics: how many requests, how they ended, how long they took."""

from __future__ import annotations

from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""Seconds; a recommendation takes about one millisecond."""


CLIENT_GONE = 499
"""What a request without an answer counts as: its client has left."""


class RequestFigures:
    """The figures of one app, in a registry of its own."""

    def __init__(self, model_bytes: int) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "cerp_requests",
            "Requests by method, endpoint and status.",
            ("method", "endpoint", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "cerp_request_seconds",
            "Seconds from request to the end of the response.",
            ("endpoint",),
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.model_bytes = Gauge(
            "cerp_model_bytes", "Size of the served file.", registry=self.registry
        )
        self.model_bytes.set(model_bytes)

    def text(self) -> bytes:
        """In Prometheus' exposition format."""
        return generate_latest(self.registry)


class CountRequests:
    """ASGI middleware that fills `RequestFigures`.

    Endpoints are labelled by their route and unknown paths by one common
    label, so that clients cannot make the number of series grow.
    """

    def __init__(self, app: ASGIApp, metrics: RequestFigures) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and watch the status go by."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = perf_counter()
        status = CLIENT_GONE

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except Exception:
            status = 500
            raise
        finally:
            endpoint = getattr(scope.get("route"), "path", "unknown")
            method = scope["method"] if endpoint != "unknown" else "any"
            self.metrics.requests.labels(method, endpoint, status).inc()
            self.metrics.seconds.labels(endpoint).observe(perf_counter() - started)
