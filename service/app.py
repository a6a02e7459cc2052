"""The application: middleware, the routers of the capabilities, and error handlers, in order."""

import logging
from importlib.metadata import version

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from core.errors import GatewayError
from core.state.masking_counts import MaskingCounts
from service.capability import Routes
from service.dashboard.pages import Surface, Views
from service.gateway import Gateway
from service.http import problems
from service.http.answers import DEFAULT_PROBLEM, DescribedAPI
from service.http.api_page import add_api_page
from service.http.body import json_limits
from service.http.exchange import OpenStreams, StreamGuard
from service.http.local_calls import LocalCalls
from service.http.middleware import BodyLimit, BodyPace, JsonLines, RequestContext, RequestTracing
from service.http.problem_page import add_problem_page


def create_app(gateway: Gateway) -> FastAPI:
    """Build the app around a `Gateway`. The caller starts and stops the gateway.

    With `admin_port` set, administration and metrics are in `create_admin_app` alone.
    """
    return _app(gateway, Surface(tenants=True, operator=gateway.settings.admin_port is None))


def create_admin_app(gateway: Gateway) -> FastAPI:
    """Build the app of `admin_port`."""
    return _app(gateway, Surface(tenants=False, operator=True))


def create_cluster_app(gateway: Gateway) -> FastAPI:
    """Build the app of `ray_port`, for the cluster that runs the jobs."""
    app = _without_routes(gateway)
    for router in (each for capability in gateway.capabilities for each in capability.cluster_routers):
        app.include_router(router)
    return app


def _app(gateway: Gateway, surface: Surface) -> FastAPI:
    """The routes of every capability, as far as they belong to `surface`."""
    app = _without_routes(gateway)
    capabilities = gateway.capabilities
    routes: list[Routes] = []
    if surface.tenants:
        routes += [each for capability in capabilities for each in capability.routers]
    routes += [each for capability in capabilities for each in capability.common_routers]
    if surface.operator:
        routes += [each for capability in capabilities for each in capability.operator_routers]
    for each in routes:
        app.include_router(each if isinstance(each, APIRouter) else each(gateway.parts))
    if surface.tenants:
        gateway.parts[LocalCalls].open(app)
    app.state.views = Views((view for capability in capabilities for view in capability.views), surface)
    return app


def _without_routes(gateway: Gateway) -> FastAPI:
    settings, parts = gateway.settings, gateway.parts

    async def on_gateway_error(request: Request, error: Exception) -> Response:
        if (tenant := getattr(request.state, "tenant", None)) is not None:
            parts[MaskingCounts].note_refusal(tenant, request.state.identity.key_id, error)
        return await problems.on_gateway_error(request, error)

    app = DescribedAPI(
        openapi_url=None,  # with it, the framework's own pages; `add_api_page` adds them
        title="Privacy gateway",
        version=version("privacy-gateway"),
        summary="Private embeddings and sanitised text, against a durable privacy budget.",
        middleware=[
            Middleware(
                RequestContext,
                hsts_max_age_s=settings.hsts_max_age_s,
                tracing=RequestTracing(
                    tenants=settings.traces_tenants, accept_incoming=settings.traces_accept_incoming
                ),
            ),
            Middleware(StreamGuard, streams=parts[OpenStreams]),
            Middleware(BodyPace),
            Middleware(BodyLimit, bytes_max=settings.body_bytes_max, vectors_bytes_max=settings.vectors_bytes_max),
        ],
        exception_handlers={
            GatewayError: on_gateway_error,
            RequestValidationError: problems.on_invalid_request,
            HTTPException: problems.on_http_error,
        },
        responses=DEFAULT_PROBLEM
        | problems.documented(  # of every route
            s401="No key, or one that is unknown, expired or revoked.",
            s403="The key does not have the role that the route needs, or is for another kind of route.",
            s408="The body arrives too slowly; the connection is closed.",
            s429="Too many requests, or as much in work as one tenant may have.",
            s431="The head of the request is too large; the connection is closed.",
            s503="Too much is in work, or a part of the gateway is not ready.",
            s507="There is too little disk space, for an upload or for a file of the blob store.",
        ),
        redirect_slashes=False,  # a redirect would repeat the path
        # The framework's own would export the text of exceptions. `auto_configure` reads the environment otherwise.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    add_api_page(app)
    add_problem_page(app)
    app.state.parts = parts
    app.state.json_limits = json_limits(settings)
    return app


def configure_logging() -> None:
    """Log the gateway's own events, and warnings of libraries without their text, on standard error: as JSON lines, or
    as lines for a reader where it is a terminal."""
    logging._srcfile = None  # documented: the place of a call is not looked for
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines(is_terminal=handler.stream.isatty()))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("privacy_gateway").setLevel(logging.INFO)
