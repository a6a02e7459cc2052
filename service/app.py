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
from service import problems
from service.house import House
from service.middleware import BodyLimit, JsonLines, RequestContext
from service.routes import (
    accounting,
    admin,
    budget,
    catalogue,
    finetune,
    health,
    jobs,
    openai,
    sentdp,
    synthesis,
    text,
    vector,
)


def create_app(here: House) -> FastAPI:
    """The application of an open house; whoever opened it closes it."""
    app = FastAPIOffline(  # the API page is whole where only the gateway can be reached
        redoc_url=None,
        title="Privacy gateway",
        version=version("privacy-gateway"),
        summary="Private embeddings and sanitised text, against a durable privacy budget.",
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

    app.include_router(sentdp.router)
    app.include_router(vector.router)
    app.include_router(openai.router)
    app.include_router(text.router)
    app.include_router(budget.router)
    app.include_router(accounting.router)
    app.include_router(catalogue.router)
    app.include_router(jobs.router)
    app.include_router(synthesis.router)
    app.include_router(finetune.router)
    app.include_router(health.router)
    app.include_router(admin.router)
    return app


def configure_logging() -> None:
    """JSON lines on standard error for the gateway; warnings alone from everybody else, without their arguments."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("privacy_gateway").setLevel(logging.INFO)
