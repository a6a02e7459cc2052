"""The application: middleware, routers and error handlers, in order. Nothing registers itself."""

from __future__ import annotations

import logging
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from core.errors import GatewayError
from service.accounting import endpoints
from service.budget import endpoints
from service.finetune import endpoints
from service.house import House
from service.http import problems
from service.http.middleware import BodyLimit, JsonLines, RequestContext
from service.jobs import endpoints
from service.openai import endpoints
from service.operation import catalogue, health
from service.sanitize import endpoints
from service.sentdp import endpoints
from service.synthesis import endpoints
from service.tenants import endpoints
from service.vectors import endpoints


def create_app(here: House) -> FastAPI:
    """The application of an open house; whoever opened it closes it."""
    app = FastAPIOffline(  # the API page is whole where only the gateway can be reached
        redoc_url=None,
        title="Privacy gateway",
        version=version("privacy-gateway"),
        summary="Private embeddings and sanitised endpoints, against a durable privacy budget.",
        middleware=[
            Middleware(RequestContext),
            Middleware(
                BodyLimit,
                bytes_max=here.settings.body_bytes_max,
                vectors_bytes_max=here.settings.vectors_bytes_max,
                job_bytes_max=here.settings.job_json_bytes_max,
                job_stream_bytes_max=here.settings.job_stream_bytes_max,
            ),
        ],
        exception_handlers={
            GatewayError: problems.on_gateway_error,
            RequestValidationError: problems.on_invalid_request,
            HTTPException: problems.on_http_error,
        },
        telemetry={"logs": False},  # the framework's own would export the text of exceptions
    )
    app.state.house = here

    app.include_router(endpoints.router)
    app.include_router(endpoints.router)
    app.include_router(endpoints.router)
    app.include_router(endpoints.router)
    app.include_router(endpoints.router)
    app.include_router(endpoints.router)
    app.include_router(catalogue.router)
    app.include_router(endpoints.router)
    app.include_router(endpoints.router)
    app.include_router(endpoints.router)
    app.include_router(health.router)
    app.include_router(endpoints.router)
    return app


def configure_logging() -> None:
    """JSON lines on standard error for the gateway; warnings alone from everybody else, without their arguments."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("privacy_gateway").setLevel(logging.INFO)
