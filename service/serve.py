"""`privacy-gateway serve`: the server, and its messages while it starts."""

import asyncio
import contextlib
import gc
import resource
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import uvicorn
from fastapi import FastAPI

from core.errors import GatewayError
from core.memory import use_few_arenas
from gpu_workers.engine.protocol import Role
from gpu_workers.engine.task_queue import Engine
from gpu_workers.fork_server import drop_other_variables, end_fork_server, start_fork_server
from service.app import configure_logging, create_admin_app, create_app, create_cluster_app
from service.capabilities import CAPABILITIES
from service.capability import Capability
from service.config.settings import Settings
from service.dashboard.endpoints import LINK
from service.dashboard.sign_in_link import LINK_S, SignInLink
from service.domains.store import DomainStore
from service.gateway import Gateway
from service.http.connections import ConnectionLimits, LimitedProtocol
from service.operation.health import Readiness
from service.processes.supervisor import leave

_POLL_S = 0.1
_OBJECTS_BEFORE_COLLECTION = 20_000
_SWITCH_S = 0.001  # the event loop waits this long for a thread that computes in Python, instead of 5 ms
_FILES_PER_CONNECTION = 3  # the socket, and two blocks of shared memory
_OTHER_FILES = 512


@dataclass(frozen=True)
class Inherited:
    """What a gateway has from its supervisor. `sockets` listen for it and for the others. `own_dir`: for files of this
    process alone. `watch` is called on the event loop at the start, `report_ready` once this gateway is ready."""

    name: str
    sockets: Sequence[socket.socket]
    own_dir: Path
    watch: Callable[[], None]
    report_ready: Callable[[], None]


def run(
    settings: Settings,
    *,
    engine: Engine | None = None,
    capabilities: Sequence[Capability] = CAPABILITIES,
    inherited: Inherited | None = None,
    sign_in: Path | None = None,
) -> None:
    """Serve until interrupted, by default with the local engine. `sign_in`: the file of a key for a link to sign in.

    Exits with 1 and one line with the reason if the gateway cannot start.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would contain text
    use_few_arenas()
    sys.setswitchinterval(_SWITCH_S)
    _allow_open_files(settings.connections_max)
    configure_logging()
    drop_other_variables()  # before the first child process
    start_fork_server()
    try:
        code = asyncio.run(_serve(settings, engine, capabilities, inherited, sign_in))
    finally:
        end_fork_server()
    sys.exit(code)


def _allow_open_files(connections: int) -> None:
    """Raise this process's limit of open files, and that of its children, to the largest that the system allows."""
    _, largest = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (largest, largest))
    needed = _FILES_PER_CONNECTION * connections + _OTHER_FILES
    if largest != resource.RLIM_INFINITY and largest < needed:
        _print(f"warning: the limit of open files is {largest}; {connections} connections may need {needed}")


class _Server(uvicorn.Server):
    """uvicorn's server without its own signal handling, which ends the process before the gateway can be stopped."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(
    settings: Settings,
    engine: Engine | None,
    capabilities: Sequence[Capability],
    inherited: Inherited | None,
    sign_in: Path | None,
) -> int:
    started = time.monotonic()
    servers: list[_Server] = []
    this_task = asyncio.current_task()

    def stop(number: int) -> None:
        if servers:
            gateway.end_streams()
            for server in servers:
                server.handle_exit(number, None)
        elif this_task is not None:
            this_task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    say = _print
    if inherited is None:
        _print("starting the ledger ...")
    else:
        say = partial(_print, name=inherited.name)
        inherited.watch()
    try:
        if inherited is None:
            await leave(settings)
        own_dir = None if inherited is None else inherited.own_dir
        gateway = Gateway(settings, engine=engine, own_dir=own_dir, capabilities=capabilities)
    except (GatewayError, ValueError, OSError) as error:
        say(f"cannot start: {error}")
        return 1
    try:
        await gateway.start()
        servers += _servers(gateway, shares_sockets=inherited is not None)
        _spare_collector()
        progress = asyncio.create_task(_report_progress(servers, gateway, started, inherited, say, sign_in))
        main, *others = servers
        sockets = None if inherited is None else list(inherited.sockets)
        await asyncio.gather(main.serve(sockets), *(server.serve() for server in others))
        progress.cancel()
        return 0 if all(server.started for server in servers) else 1
    except asyncio.CancelledError:
        return 0  # stopped while starting
    except GatewayError as error:
        say(f"cannot start: {error}")
        return 1
    finally:
        await gateway.stop()


def _spare_collector() -> None:
    """Exempt what was imported and made so far from garbage collection.

    Parsing a large body makes many objects, and so starts many collections. Each would visit every module again: a
    megabyte of empty lists took 300 milliseconds instead of 20. Short requests make objects that no cycle keeps: with
    Python's own threshold, the collector took a twentieth of their time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)


def _servers(gateway: Gateway, *, shares_sockets: bool) -> list[_Server]:
    """The server of the API, and those of `admin_port` and `ray_port` if there are any."""
    settings = gateway.settings
    servers = [_server(gateway, create_app(gateway), settings.host, settings.port)]
    if shares_sockets:
        servers[0].config.backlog = 1  # accepted at a time, so that all processes get some of those that wait
    if settings.admin_port is not None:
        servers.append(_server(gateway, create_admin_app(gateway), settings.admin_host, settings.admin_port))
    if settings.ray_port is not None:
        servers.append(_server(gateway, create_cluster_app(gateway), settings.host, settings.ray_port))
    return servers


def _server(gateway: Gateway, app: FastAPI, host: str, port: int) -> _Server:
    settings = gateway.settings
    limits = ConnectionLimits(settings.connections_max, settings.connections_per_address_max)
    app.openapi()  # kept; the first request of it would keep the event loop for half a second
    config = uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", partial(LimitedProtocol, limits=limits, open_by_address=Counter())),
        ws="none",
        host=host,
        port=port,
        lifespan="off",
        access_log=False,  # it prints paths, which may contain text
        log_config=None,
        server_header=False,
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_graceful_shutdown=int(settings.request_timeout_s),
    )
    return _Server(config)


async def _report_progress(
    servers: Sequence[uvicorn.Server],
    gateway: Gateway,
    started: float,
    inherited: Inherited | None,
    say: Callable[[str], None],
    sign_in: Path | None,
) -> None:
    """Print what is being loaded, and the gateway's addresses once it is ready."""
    shown: dict[Role, str] = {}
    while True:
        for role in gateway.engine.roles:
            stage = gateway.engine.status(role).stage
            if shown.get(role) != stage:
                shown[role] = stage
                say(f"{role.value} worker: {stage} ({time.monotonic() - started:.1f} s)")
        if all(server.started for server in servers) and all(
            gateway.engine.status(role).ready for role in gateway.engine.roles
        ):
            with contextlib.suppress(GatewayError):
                await gateway.parts[Readiness].check()
                gateway.parts[DomainStore].warn_of_unloaded()
                break
        await asyncio.sleep(_POLL_S)
    if inherited is not None:
        inherited.report_ready()
    address = f"http://{gateway.settings.host}:{_port(servers[0])}"
    say(f"ready in {time.monotonic() - started:.1f} s: {address}  (API: {address}/docs)")
    say("the data behind some bundled models do not permit commercial use: GET /models and NOTICE say which")
    if sign_in is not None:
        try:
            token = await gateway.parts[SignInLink].make(await asyncio.to_thread(sign_in.read_text))
            say(f"playground, by a link that works once, within {LINK_S // 60} minutes: {address}{LINK}?token={token}")
        except (GatewayError, OSError, ValueError):
            say(f"warning: no link to sign in: {sign_in} holds no valid key with the role read")
    if gateway.settings.admin_port is not None:
        say(f"administration and metrics: http://{gateway.settings.admin_host}:{_port(servers[1])}")


def _port(server: uvicorn.Server) -> int:
    return int(server.servers[0].sockets[0].getsockname()[1])


def _print(text: str, name: str = "") -> None:
    sys.stderr.write(f"privacy-gateway: {name and f'{name}: '}{text}\n")
    sys.stderr.flush()
