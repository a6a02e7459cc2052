"""`privacy-gateway serve`: the server, and what it says while it starts."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys
import time

import uvicorn

from core.errors import GatewayError
from gpu_workers.engine import Role
from service.app import configure_logging, create_app
from service.house import House
from service.settings import Settings

_POLL_S = 0.1


def run(settings: Settings) -> None:
    """Serve until interrupted. Exits with 1, after one line that says why, when the gateway cannot start."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold text
    configure_logging()
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(asyncio.run(_serve(settings)))


async def _serve(settings: Settings) -> int:
    started = time.monotonic()
    _say("starting the ledger ...")
    try:
        here = House(settings)
    except (GatewayError, ValueError, OSError) as error:
        _say(f"cannot start: {error}")
        return 1
    try:
        await here.open()
        server = _server(here)
        narrator = asyncio.create_task(_narrate(server, here, started))
        await server.serve()
        narrator.cancel()
        return 0 if server.started else 1
    except GatewayError as error:
        _say(f"cannot start: {error}")
        return 1
    finally:
        await here.close()


def _server(here: House) -> uvicorn.Server:
    config = uvicorn.Config(
        create_app(here),
        host=here.settings.host,
        port=here.settings.port,
        lifespan="off",
        access_log=False,  # it prints paths, and a path may hold text
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=int(here.settings.request_timeout_s),
    )
    return uvicorn.Server(config)


async def _narrate(server: uvicorn.Server, here: House, started: float) -> None:
    """Tell what is being loaded, and where the gateway is once it is ready."""
    told: dict[Role, str] = {}
    while True:
        for role in Role:
            stage = here.engine.status(role).stage
            if told.get(role) != stage:
                told[role] = stage
                _say(f"{role.value} worker: {stage} ({time.monotonic() - started:.1f} s)")
        if server.started and all(here.engine.status(role).ready for role in Role):
            with contextlib.suppress(GatewayError):
                await here.check_ready()
                break
        await asyncio.sleep(_POLL_S)
    address = f"http://{here.settings.host}:{_port(server)}"
    _say(f"ready in {time.monotonic() - started:.1f} s: {address}  (API: {address}/docs)")


def _port(server: uvicorn.Server) -> int:
    return int(server.servers[0].sockets[0].getsockname()[1])


def _say(text: str) -> None:
    sys.stderr.write(f"privacy-gateway: {text}\n")
    sys.stderr.flush()
