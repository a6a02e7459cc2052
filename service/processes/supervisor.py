"""`privacy-gateway serve --processes N`: N gateways that accept connections on one socket.

The supervisor runs the embedded Redis, if the settings name none, one fork server, and N gateways with workers of their
own. They share Redis and the data directory, as gateways on several machines share Redis and the blob store, so all
that holds for those holds for them: a budget is checked and debited in Redis, in one step. A connection goes to a
gateway that has time, and a gateway that ends loses only those that it had accepted.

Guarantee: no process but Redis outlives the supervisor. A Redis whose supervisor was killed is ended by the next start,
as that of a gateway of one process. A process that ends is started again.
"""

import asyncio
import os
import resource
import shutil
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from core.errors import DataDirInUse, GatewayError
from core.files.processes import FileLock
from core.redis.embedded import EmbeddedRedis
from gpu_workers.fork_server import connect_fork_server, end_fork_server, has_fork_server
from service.config.data_dir import PROCESSES
from service.config.reading import load_admin_key, load_master_key
from service.config.settings import Settings
from service.files.stored import open_files, stored_files
from service.ledger_connection import prepared_ledger
from service.processes.child import Child

EXTRA_S = 30.0  # for what follows the last request of a gateway


def supervisor_lock(folder: Path) -> FileLock:
    """Held by a supervisor."""
    return FileLock(folder / "supervisor.lock")


def gateways_lock(folder: Path) -> FileLock:
    """Held by every gateway, also by those of a supervisor that was killed, until their last request has ended."""
    return FileLock(folder / "gateways.lock")


def remove_unused(folder: Path, processes: int) -> None:
    """Remove the working folders of gateways that are not started any more. The blob store has their files."""
    for own in folder.iterdir():
        if own.name.isdecimal() and int(own.name) > processes:
            shutil.rmtree(own, ignore_errors=True)


async def leave(settings: Settings) -> None:
    """Before a gateway without a supervisor starts: wait for those of a former one, and remove their folders.

    Their local copies are in plain form, and nothing else would remove them. Raises DataDirInUse.
    """
    folder = settings.data_dir / PROCESSES
    if not folder.is_dir():
        return
    supervisor, gateways = supervisor_lock(folder), gateways_lock(folder)
    if not supervisor.try_acquire():
        raise DataDirInUse
    try:
        if not await gateways.acquire(settings.request_timeout_s + EXTRA_S):
            raise DataDirInUse
        await asyncio.to_thread(remove_unused, folder, 1)
    finally:
        gateways.release()
        supervisor.release()


def own_dir(settings: Settings, number: int) -> Path:
    """Where a gateway has files of its own. The first one has those of a gateway of one process."""
    return settings.data_dir if number == 1 else settings.data_dir / PROCESSES / str(number)


def gateway_order(settings: Settings, number: int, *, redis: Path | None, fork_server: bool) -> dict[str, Any]:
    """`redis`: the socket of the supervisor's Redis; None if the settings name one. `fork_server`: whether the process
    inherits a connection to the supervisor's fork server.

    The gateways divide the processors of this machine, where the settings do not say how many threads a worker has.
    """
    own: dict[str, Any] = {
        "data_dir": str(settings.data_dir),
        "host": settings.host,
        "port": settings.port,
        "admin_port": settings.admin_port and settings.admin_port + number - 1,
        "processes": settings.processes,
        "encoder_threads": settings.encoder_threads or max(1, _processors() // settings.processes),
    }
    if redis is not None:
        own["redis_url"] = f"unix://{quote(str(redis))}"
    return {
        "settings": own,
        "name": f"gateway {number}",
        "own_dir": str(own_dir(settings, number)),
        "fork_server": fork_server,
    }


def _processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


LOCK_WAIT_S = 10.0
BACKLOG = 2048


def supervise(settings: Settings) -> None:
    """Serve until interrupted. Exits with 1 and one line with the reason if the gateway cannot start."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would contain keys
    try:
        code = asyncio.run(Supervisor(settings).serve())
    finally:
        end_fork_server()
    sys.exit(code)


class Supervisor:
    """The gateways of one data directory. Runs on the event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._locks: list[FileLock] = []
        self._redis: EmbeddedRedis | None = None
        self._restarting_redis: asyncio.Task[None] | None = None
        self._sockets: list[socket.socket] = []
        self._gateways: list[Child] = []
        self._stopped = asyncio.Event()

    async def serve(self) -> int:
        began = time.monotonic()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._stopped.set)
        starting = asyncio.create_task(self._start())
        stopped = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                return 0
            starting.result()
            _say(f"ready in {time.monotonic() - began:.1f} s: {self._settings.processes} gateways at {self._address}")
            await stopped
            return 0
        except (GatewayError, ValueError, OSError) as error:
            _say(f"cannot start: {error}")
            return 1
        finally:
            starting.cancel()
            with suppress(asyncio.CancelledError, GatewayError, ValueError, OSError):
                await starting
            await self._stop()

    @property
    def _address(self) -> str:
        host = self._settings.host
        port = self._sockets[0].getsockname()[1]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def _start(self) -> None:
        """Returns once every gateway is ready. Raises GatewayError, ValueError, OSError."""
        settings = self._settings
        check_processes(settings)
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = settings.data_dir.resolve() / PROCESSES
        folder.mkdir(mode=0o700, exist_ok=True)
        await self._take(supervisor_lock(folder), LOCK_WAIT_S)
        lock = gateways_lock(folder)
        if lock.try_acquire():
            self._locks.append(lock)
        else:
            _say("waiting for the gateways of a supervisor that has ended ...")
            await self._take(lock, settings.request_timeout_s + EXTRA_S)
        await asyncio.to_thread(remove_unused, folder, settings.processes)
        self._sockets = await asyncio.to_thread(_listening, settings.host, settings.port)
        master_key = load_master_key(settings)
        load_admin_key(settings)  # the gateways find one that exists
        if settings.redis_url is None:
            _say("starting the ledger ...")
            self._redis = redis = EmbeddedRedis(settings.data_dir, redis_server=settings.redis_server)
            await redis.start()
            self._restarting_redis = asyncio.create_task(redis.supervise())
            async with prepared_ledger(settings, master_key, redis.socket) as parts:
                # Its seals are right, and it has this version's schema. No other gateway uses it.
                files = stored_files(settings, parts.client, master_key)
                await open_files(parts.client, files, alone=True)
        self._gateways = [
            Child(
                f"gateway {number}",
                "service.processes.gateway_process",
                gateway_order(
                    settings, number, redis=self._redis.socket if self._redis else None, fork_server=has_fork_server()
                ),
                os.environ,
                files=[lock.fileno(), *(one.fileno() for one in self._sockets)],
                connect=connect_fork_server,
                say=_say,
            )
            for number in range(1, settings.processes + 1)
        ]
        for child in self._gateways:
            child.start()
        await self._until_ready()

    async def _take(self, lock: FileLock, wait_s: float) -> None:
        if not await lock.acquire(wait_s):
            raise DataDirInUse
        self._locks.append(lock)

    async def _until_ready(self) -> None:
        """Raises ValueError for a process that does not start."""

        async def failure() -> None:
            every = [asyncio.create_task(child.failed.wait()) for child in self._gateways]
            try:
                await asyncio.wait(every, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in every:
                    one.cancel()

        async def readiness() -> None:
            for child in self._gateways:
                await child.ready.wait()

        waits = {asyncio.create_task(failure()), ready := asyncio.create_task(readiness())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
        if not ready.done():
            raise ValueError("a process ends each time that it is started")

    async def _stop(self) -> None:
        """Gateways first, which use Redis until their last request has ended."""
        for one in self._sockets:
            one.close()
        grace_s = self._settings.request_timeout_s + EXTRA_S
        await asyncio.gather(*(child.stop(grace_s=grace_s) for child in self._gateways))
        if self._redis is not None:
            await self._redis.stop()
        if self._restarting_redis is not None:
            with suppress(asyncio.CancelledError):
                await self._restarting_redis
        for lock in self._locks:
            lock.release()


def check_processes(settings: Settings) -> None:
    """Raises ValueError for settings with which several processes cannot serve."""
    if settings.admin_port is None:
        raise ValueError(
            "PROCESSES above 1 needs ADMIN_PORT: each gateway serves its own metrics, "
            "the first at ADMIN_PORT, the next at the port after it"
        )
    ports = range(settings.admin_port, settings.admin_port + settings.processes)
    if settings.admin_port and (ports[-1] > 65535 or settings.port in ports):
        raise ValueError("ADMIN_PORT and the PROCESSES - 1 ports after it must be free, and PORT none of them")


def _listening(host: str, port: int) -> list[socket.socket]:
    """A socket for each address of `host`. Raises OSError."""
    opened: list[socket.socket] = []
    try:
        for family, _, _, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            opened.append(socket.create_server(address[:2], family=family, backlog=BACKLOG))
    except OSError as error:
        for one in opened:
            one.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    return opened


def _say(text: str) -> None:
    sys.stderr.write(f"privacy-gateway: {text}\n")
    sys.stderr.flush()
