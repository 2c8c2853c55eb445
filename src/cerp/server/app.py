"""The HTTP app: `create_app` joins a runtime, the bytes of its file, and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from cerp._version import __version__
from cerp.errors import CerpError, ConfigError, DataError
from cerp.runtime import Runtime
from cerp.server.assets import Document, page_router
from cerp.server.card import model_card
from cerp.server.compression import CompressAnswers
from cerp.server.docs import docs_page
from cerp.server.endpoints import Served, router
from cerp.server.guards import AddSecurityHeaders, AnswerHead, RefuseDoubtful
from cerp.server.metrics import CountRequests, RequestFigures
from cerp.server.options import ServeOptions
from cerp.server.pressure import LimitWork, ReadBody, SendInPieces
from cerp.server.schemas import MAX_BODY_BYTES, Problem
from cerp.server.search import IdSearch
from cerp.server.work import Work


def create_app(
    runtime: Runtime,
    file: bytes,
    name: str = "model.cerp",
    *,
    hosts: Sequence[str] | None = None,
    options: ServeOptions | None = None,
    label: str | None = None,
    others: Mapping[str, tuple[Runtime, bytes]] | None = None,
) -> FastAPI:
    """The app of one model, which was read from the bytes ``file`` and is shown as ``name``.

    ``hosts`` are the names by which it may be asked, whatever the port; None: any. ``others``
    are more models by name; each answers below ``/models/<name>`` as the first does at the top,
    and the first does there too where it has a ``label``.
    """
    options = options or ServeOptions()
    measured = RequestFigures(len(file))
    work = Work()
    app = FastAPI(
        title="cerp",
        version=__version__,
        description=f"Recommendations from {name}.",
        # Their pages load scripts from elsewhere; /openapi.json stays.
        docs_url=None,
        redoc_url=None,
        middleware=[
            Middleware(AnswerHead),
            Middleware(CountRequests, metrics=measured),
            Middleware(AddSecurityHeaders),
            *_cors(options),
            Middleware(RefuseDoubtful, hosts=hosts),
            Middleware(SendInPieces),
            Middleware(ReadBody, limit=MAX_BODY_BYTES),
            Middleware(LimitWork, work=work),
            Middleware(CompressAnswers),
        ],
        exception_handlers=_HANDLERS,
    )
    shared = _Shared(measured, options, work)
    app.state.shared, app.state.models = shared, {}
    put_model(app, runtime, file, name)
    app.include_router(router)
    if label is not None:
        itself = FastAPI(openapi_url=None, exception_handlers=_HANDLERS)
        itself.state = app.state  # whatever model is put there
        itself.include_router(router)
        app.state.models[label] = itself
        app.mount(f"/models/{label}", itself)
    for own_name, (own_runtime, own_file) in (others or {}).items():
        beside = FastAPI(openapi_url=None, exception_handlers=_HANDLERS)
        beside.state.shared = shared
        put_model(beside, own_runtime, own_file, own_name)
        beside.include_router(router)
        beside.state.routes = [*beside.routes, *router.routes]
        app.state.models[own_name] = beside
        app.mount(f"/models/{own_name}", beside)
    if options.docs:
        document = Document(docs_page(app.openapi()).encode(), "text/html; charset=utf-8")
        app.add_api_route("/docs", document.respond, response_model=None, include_in_schema=False)
    page = page_router()
    app.include_router(page)
    app.state.routes = [*app.routes, *router.routes, *page.routes]
    return app


@dataclass(frozen=True)
class _Shared:
    """What all models of a server have in common."""

    metrics: RequestFigures
    options: ServeOptions
    work: Work


def put_model(app: FastAPI, runtime: Runtime, file: bytes, name: str) -> None:
    """Answer from this model from now on; requests in flight keep the one that they began with."""
    shared: _Shared = app.state.shared
    app.state.served = Served(
        runtime=runtime,
        file=Document(file, "application/octet-stream"),
        card=model_card(runtime, file, name, shared.options),
        metrics=shared.metrics,
        users=IdSearch(runtime.users),
        items=IdSearch(runtime.items, runtime.titles),
        titles=dict(zip(runtime.items.values.tolist(), runtime.titles or (), strict=False)),
        work=shared.work,
        options=shared.options,
    )
    if hasattr(app.state, "models"):  # the first one, whose size is told
        shared.metrics.model_bytes.set(len(file))


def _cors(options: ServeOptions) -> list[Middleware]:
    if not options.origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=list(options.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["content-type"],
        )
    ]


async def _refused(request: Request, error: Exception) -> Response:
    """Our own errors: an unknown id is not found, an impossible wish cannot be processed."""
    statuses: dict[type[Exception], int] = {DataError: 404, ConfigError: 422}
    return _problem(statuses.get(type(error), 500), str(error))


async def _http_problem(request: Request, error: HTTPException) -> Response:
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods(request))
    return _problem(error.status_code, error.detail, headers)


def _methods(request: Request) -> list[str]:
    """All that the path can be asked with: it may have a route for each."""
    path = request.url.path.removeprefix(request.scope.get("root_path", ""))
    routes = [
        route
        for route in request.app.state.routes
        if isinstance(route, Route) and route.path_regex.match(path)
    ]
    found = {method for route in routes for method in route.methods or ()}
    return sorted(found | ({"HEAD"} if "GET" in found else set()))


async def _invalid(request: Request, error: RequestValidationError) -> Response:
    """Where and what, without the input itself."""
    return _problem(422, "; ".join(_described(problem) for problem in error.errors()[:5]))


def _described(problem: dict[str, Any]) -> str:
    place, reason = problem["loc"][1:], problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "json_invalid":
        where = f"{problem['ctx']['error']} at character {place[0] + 1}"
        return f"the body is not JSON ({where}); send one object, as /openapi.json describes it"
    if not place and problem["type"] == "model_attributes_type":
        return "the body is no JSON object; send one, with Content-Type: application/json"
    return f"{'.'.join(map(str, place)) or 'body'}: {reason}"


async def _failed(request: Request, error: Exception) -> Response:
    """A bug: the traceback goes to the log, not to the client."""
    return _problem(500, "the server failed on this request; its log says more")


_HANDLERS: dict[int | type[Exception], Any] = {
    CerpError: _refused,
    HTTPException: _http_problem,
    RequestValidationError: _invalid,
    Exception: _failed,
}


def _problem(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse(Problem(error=message).model_dump(), status, headers)
