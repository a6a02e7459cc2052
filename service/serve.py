"""`privacy-gateway serve`: the server, and what it says while it starts."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys
import time

import uvicorn
from fastapi import FastAPI

from core.errors import GatewayError
from gpu_workers.engine import Role
from service.app import configure_logging, create_app
from service.house import House
from service.settings import Settings

_POLL_S = 0.1


def run(settings: Settings) -> None:
    """Serve until interrupted. Exits with 1 when the gateway cannot start."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold text
    configure_logging()
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        access_log=False,  # it prints paths, and a path may hold text
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=int(settings.request_timeout_s),
    )
    server = uvicorn.Server(config)

    async def main() -> None:
        started = time.monotonic()
        narrator = asyncio.create_task(_narrate(server, app, started))
        try:
            await server.serve()
        finally:
            narrator.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await narrator

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
    if not server.started:
        sys.exit(1)


async def _narrate(server: uvicorn.Server, app: FastAPI, started: float) -> None:
    """Tell what is being loaded, and where the gateway is once it is ready."""
    _say("starting the ledger ...")
    while not server.started:  # noqa: ASYNC110 - uvicorn offers no event
        await asyncio.sleep(_POLL_S)
    here: House = app.state.house
    address = f"http://{here.settings.host}:{_port(server)}"
    told: dict[Role, str] = {}
    while True:
        for role in Role:
            stage = here.engine.status(role).stage
            if told.get(role) != stage:
                told[role] = stage
                _say(f"{role.value} worker: {stage} ({time.monotonic() - started:.1f} s)")
        if all(here.engine.status(role).ready for role in Role):
            with contextlib.suppress(GatewayError):
                await here.check_ready()
                break
        await asyncio.sleep(_POLL_S)
    _say(f"ready in {time.monotonic() - started:.1f} s: {address}  (API: {address}/docs)")


def _port(server: uvicorn.Server) -> int:
    return int(server.servers[0].sockets[0].getsockname()[1])


def _say(text: str) -> None:
    sys.stderr.write(f"privacy-gateway: {text}\n")
    sys.stderr.flush()
