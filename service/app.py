"""The application: middleware, routers and error handlers, in order. Nothing registers itself."""

from __future__ import annotations

import logging
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from core.errors import GatewayError
from service.accounting.endpoints import router as accounting
from service.alerts.endpoints import operator_router as operator_alerts
from service.alerts.endpoints import router as alerts
from service.budget.bounds import router as bounds
from service.budget.endpoints import account_router, series_router
from service.budget.estimate import estimate_router
from service.budget.events import events_router
from service.budget.headroom import headroom_router
from service.budget.integrity import admin_router as all_integrity
from service.budget.integrity import router as integrity
from service.budget.journal import router as journal
from service.budget.spending import router as spending
from service.dashboard.endpoints import router as dashboard
from service.dashboard.views import Surface
from service.domains.endpoints import router as domains
from service.gateway import Gateway
from service.guardrail.endpoints import router as guardrail
from service.http import problems
from service.http.api_page import add_api_page
from service.http.body import json_limits
from service.http.middleware import BodyLimit, BodyPace, JsonLines, RequestContext
from service.http.open_streams import StreamGuard
from service.http.request_tracing import RequestTracing
from service.jobs.endpoints import creation_router
from service.jobs.endpoints import router as jobs
from service.openai.endpoints import router as openai
from service.operation.audit import router as audit
from service.operation.catalogue import router as catalogue
from service.operation.health import metrics_router as metrics
from service.operation.health import router as health
from service.operation.service_state import router as service_state
from service.presidio.endpoints import router as presidio
from service.proxy.endpoints import router as proxy
from service.proxy.vault_endpoints import router as vault
from service.restore.endpoints import router as restore
from service.sanitize.endpoints import router as sanitize
from service.sanitize.recognisers.endpoints import router as recognisers
from service.sentdp.endpoints import router as sentdp
from service.synthesis.endpoints import router as synthesis
from service.tenants.endpoints import router as tenants
from service.tenants.keys import operator_router as operator_keys
from service.tenants.keys import tenant_router as own_keys
from service.vectors.endpoints import projections_router
from service.vectors.endpoints import router as vectors


def create_app(gateway: Gateway) -> FastAPI:
    """Build the app around a `Gateway`. The caller starts and stops the gateway.

    With `admin_port` set, administration and metrics are in `create_admin_app` alone.
    """
    app = _app(gateway)
    app.include_router(sentdp)
    app.include_router(vectors)
    app.include_router(openai)
    app.include_router(proxy)
    app.include_router(vault)
    app.include_router(guardrail)
    app.include_router(sanitize)
    app.include_router(restore)
    app.include_router(presidio)
    app.include_router(recognisers)
    app.include_router(series_router)
    app.include_router(events_router)
    app.include_router(estimate_router(gateway.estimated))
    app.include_router(headroom_router(gateway.estimated, gateway.openai))
    app.include_router(integrity)
    app.include_router(spending)
    app.include_router(journal)
    app.include_router(bounds)
    app.include_router(account_router)
    app.include_router(accounting)
    app.include_router(catalogue)
    app.include_router(projections_router)
    app.include_router(creation_router(gateway.job_kinds))
    app.include_router(jobs)
    app.include_router(domains)
    app.include_router(synthesis)
    app.include_router(own_keys)
    app.include_router(alerts)
    app.include_router(dashboard)
    app.include_router(health)
    administers = gateway.settings.admin_port is None
    app.state.surface = Surface(tenants=True, operator=administers)
    if administers:
        _administrate(app)
    return app


def create_admin_app(gateway: Gateway) -> FastAPI:
    """Build the app of `admin_port`."""
    app = _app(gateway)
    app.include_router(dashboard)
    app.include_router(health)
    app.state.surface = Surface(tenants=False, operator=True)
    _administrate(app)
    return app


def _administrate(app: FastAPI) -> None:
    app.include_router(metrics)
    app.include_router(tenants)
    app.include_router(operator_keys)
    app.include_router(operator_alerts)
    app.include_router(all_integrity)
    app.include_router(audit)
    app.include_router(service_state)


def _app(gateway: Gateway) -> FastAPI:
    """An app without routes."""
    settings = gateway.settings
    app = FastAPI(
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
            Middleware(StreamGuard, streams=gateway.streams),
            Middleware(BodyPace, idle_s=settings.body_idle_s, bytes_per_s_min=settings.transfer_bytes_per_s_min),
            Middleware(
                BodyLimit,
                bytes_max=settings.body_bytes_max,
                vectors_bytes_max=settings.vectors_bytes_max,
                job_bytes_max=settings.job_json_bytes_max,
                job_stream_bytes_max=settings.job_stream_bytes_max,
            ),
        ],
        exception_handlers={
            GatewayError: problems.on_gateway_error,
            RequestValidationError: problems.on_invalid_request,
            HTTPException: problems.on_http_error,
        },
        responses=problems.documented(  # of every route
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
    app.state.gateway = gateway
    app.state.authenticator = gateway.authenticator
    app.state.json_limits = json_limits(settings)
    app.state.preparation = gateway.preparation
    app.state.body_memory = gateway.body_memory
    app.state.in_flight = gateway.in_flight
    app.state.large_requests = gateway.large_requests
    return app


def configure_logging() -> None:
    """Log as JSON lines on standard error: the gateway's own events, and warnings of libraries without their text."""
    logging._srcfile = None  # documented: the place of a call is not looked for
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("privacy_gateway").setLevel(logging.INFO)
