"""`privacy-gateway serve --processes N`: one gateway whose requests are answered by several processes.

The supervisor runs the embedded Redis, if the settings name none, one server for each worker, and N front ends. Each
front end is a gateway on this Redis, as several gateways on several machines are, so all that holds for those holds for
them: a budget is checked and debited in Redis, in one step. They accept connections on one listening socket, so a
connection goes to a front end that has time, and one that ends loses only those that it had accepted.

Guarantee: no process but Redis outlives the supervisor. A Redis whose supervisor was killed is ended by the next start,
as that of a gateway of one process. A process that ends is started again.
"""

from __future__ import annotations

import asyncio
import os
import resource
import secrets
import signal
import socket
import sys
import time
from contextlib import suppress

from core.errors import DataDirInUse, GatewayError
from core.files.file_lock import FileLock
from core.files.private_socket import private_folder, socket_path
from core.ledger.embedded import EmbeddedRedis
from gpu_workers.environment import child_environment
from service.config.data_dir import FRONT_ENDS
from service.config.secrets import load_admin_key, load_master_key
from service.config.settings import Settings
from service.files.parts import open_files, stored_files
from service.front_ends.child import Child
from service.front_ends.folder import EXTRA_S, front_ends_lock, remove_unused, supervisor_lock
from service.front_ends.orders import front_end_order, placed_workers, worker_order
from service.ledger import prepared_ledger
from service.ledgers import LEDGERS_NEED_URL

LOCK_WAIT_S = 10.0
BACKLOG = 2048
_LONGEST_SOCKET = "sanitize-00000000.sock"


def supervise(settings: Settings) -> None:
    """Serve until interrupted. Exits with 1 and one line with the reason if the gateway cannot start."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would contain keys
    sys.exit(asyncio.run(Supervisor(settings).serve()))


class Supervisor:
    """The processes of one gateway. Runs on the event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._locks: list[FileLock] = []
        self._pipe: tuple[int, int] | None = None  # workers end when nobody holds its second end
        self._redis: EmbeddedRedis | None = None
        self._restarting_redis: asyncio.Task[None] | None = None
        self._sockets: list[socket.socket] = []
        self._workers: list[Child] = []
        self._front_ends: list[Child] = []
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
            _say(f"ready in {time.monotonic() - began:.1f} s: {self._settings.processes} front ends at {self._address}")
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
        """Returns once every front end is ready. Raises GatewayError, ValueError, OSError."""
        settings = self._settings
        _check(settings)
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = settings.data_dir.resolve() / FRONT_ENDS
        folder.mkdir(mode=0o700, exist_ok=True)
        await self._take(supervisor_lock(folder), LOCK_WAIT_S)
        lock = front_ends_lock(folder)
        if lock.try_acquire():
            self._locks.append(lock)
        else:
            _say("waiting for the front ends of a supervisor that has ended ...")
            await self._take(lock, settings.request_timeout_s + EXTRA_S)
        await asyncio.to_thread(remove_unused, folder, settings.processes)
        self._sockets = await asyncio.to_thread(_listening, settings.host, settings.port)
        master_key = load_master_key(settings)
        load_admin_key(settings)  # the front ends find one that exists
        if settings.redis_url is None:
            _say("starting the ledger ...")
            self._redis = redis = EmbeddedRedis(settings.data_dir, redis_server=settings.redis_server)
            await redis.start()
            self._restarting_redis = asyncio.create_task(redis.supervise())
            async with prepared_ledger(settings, master_key, redis.socket) as parts:
                # Its seals are right, and it has this version's schema. No other gateway uses it.
                files = stored_files(settings, parts.client, master_key)
                await open_files(settings, parts.client, files, alone=True)
        sockets = socket_path(folder, _LONGEST_SOCKET).parent
        private_folder(sockets)
        for former in sockets.glob("*.sock"):
            former.unlink(missing_ok=True)
        token = secrets.token_hex(32)
        # A worker of a former supervisor removes its socket when it ends, which may be later than now.
        workers = placed_workers(settings, sockets, start=secrets.token_hex(4))
        self._pipe = reading, writing = os.pipe()
        self._workers = [
            Child(
                worker.name,
                "service.front_ends.worker_process",
                worker_order(settings, worker, token),
                child_environment(),
                files=[reading],
                say=_say,
            )
            for worker in workers
        ]
        redis_socket = self._redis.socket if self._redis else None
        self._front_ends = [
            Child(
                f"front end {number}",
                "service.front_ends.front_end_process",
                front_end_order(settings, number, redis=redis_socket, workers=workers, token=token),
                os.environ,
                files=[lock.fileno(), writing, *(one.fileno() for one in self._sockets)],
                say=_say,
            )
            for number in range(1, settings.processes + 1)
        ]
        for child in (*self._workers, *self._front_ends):
            child.start()
        await self._until_ready()
        for child in self._workers:
            child.ready.set()  # they were reached, or the front ends would not be ready

    async def _take(self, lock: FileLock, wait_s: float) -> None:
        if not await lock.acquire(wait_s):
            raise DataDirInUse
        self._locks.append(lock)

    async def _until_ready(self) -> None:
        """Raises ValueError for a process that does not start."""

        async def failure() -> None:
            every = [asyncio.create_task(child.failed.wait()) for child in (*self._workers, *self._front_ends)]
            try:
                await asyncio.wait(every, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in every:
                    one.cancel()

        async def readiness() -> None:
            for child in self._front_ends:
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
        """Front ends first, which use the workers and Redis until their last request has ended."""
        settings = self._settings
        for one in self._sockets:
            one.close()
        grace_s = settings.request_timeout_s + EXTRA_S
        await asyncio.gather(*(child.stop(grace_s=grace_s) for child in self._front_ends))
        grace_s = settings.worker_drain_s + EXTRA_S
        await asyncio.gather(*(child.stop(grace_s=grace_s) for child in self._workers))
        if self._redis is not None:
            await self._redis.stop()
        if self._restarting_redis is not None:
            with suppress(asyncio.CancelledError):
                await self._restarting_redis
        for end in self._pipe or ():
            os.close(end)
        for lock in self._locks:
            lock.release()


def _check(settings: Settings) -> None:
    """Raises ValueError."""
    if settings.ledgers and settings.redis_url is None:
        raise ValueError(LEDGERS_NEED_URL)
    if settings.admin_port is None:
        raise ValueError(
            "PROCESSES above 1 needs ADMIN_PORT: each front end serves its own metrics, "
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
