"""`privacy-gateway serve`: the server, and what it says while it starts."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import sys
import time
from collections.abc import Iterator

import uvicorn

from core.errors import GatewayError
from gpu_workers.engine.protocol import Role
from service.app import configure_logging, create_app
from service.house import House
from service.settings import Settings

_POLL_S = 0.1


def run(settings: Settings) -> None:
    """Serve until interrupted. Exits with 1, after one line that says why, when the gateway cannot start."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold text
    configure_logging()
    sys.exit(asyncio.run(_serve(settings)))


class _Server(uvicorn.Server):
    """uvicorn's server without its own signal handling, which ends the process before the house can be closed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(settings: Settings) -> int:
    started = time.monotonic()
    server: _Server | None = None
    myself = asyncio.current_task()

    def stop(number: int) -> None:
        if server is not None:
            here.jobs.end_streams()  # a stream would keep the server from ending
            here.ending.set()
            server.handle_exit(number, None)
        elif myself is not None:
            myself.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
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
    except asyncio.CancelledError:
        return 0  # stopped while starting
    except GatewayError as error:
        _say(f"cannot start: {error}")
        return 1
    finally:
        await here.close()


def _server(here: House) -> _Server:
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
    return _Server(config)


async def _narrate(server: uvicorn.Server, here: House, started: float) -> None:
    """Tell what is being loaded, and where the gateway is once it is ready."""
    told: dict[Role, str] = {}
    while True:
        for role in here.engine.roles:
            stage = here.engine.status(role).stage
            if told.get(role) != stage:
                told[role] = stage
                _say(f"{role.value} worker: {stage} ({time.monotonic() - started:.1f} s)")
        if server.started and all(here.engine.status(role).ready for role in here.engine.roles):
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
