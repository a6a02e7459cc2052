"""Real redis-servers for tests: the bundled one as the gateway embeds it, an installed one as a deployment runs it."""

import hashlib
import os
import re
import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import redis
from gateway_kit import free_port
from redis.backoff import NoBackoff
from redis.retry import Retry
from wait_kit import until

from core.redis.embedded import bundled_server, embedded_conf

DEPLOY = Path(__file__).parents[2] / "deploy"
REDIS_PASSWORD = "gatewaysecret"
REDIS_ARCHIVER_PASSWORD = "archiversecret"
REDIS_ADMIN_PASSWORD = "operatorsecret"
PASSWORDS = {"gateway": REDIS_PASSWORD, "archiver": REDIS_ARCHIVER_PASSWORD, "admin": REDIS_ADMIN_PASSWORD}


@cache
def installed_server() -> Path | None:
    """The first redis-server of version 7 or later on PATH; a shim of another version is passed over."""
    for folder in os.get_exec_path():
        binary = shutil.which("redis-server", path=folder)
        if binary is None:
            continue
        output = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=120, check=False).stdout
        version = re.search(r"v=(\d+)", output)
        if version and int(version[1]) >= 7:
            return Path(binary)
    return None


def plain(url: str) -> redis.Redis:
    """A connection without the retries of the library."""
    return redis.Redis.from_url(url, single_connection_client=True, retry=Retry(NoBackoff(), 0))


class RedisProcess(ABC):
    """A redis-server on the data in `folder`, which a test may kill and start again.

    `url` is how the ledger comes in, `archiver_url` what removes archived entries, `admin_url` how an operator does.
    """

    def __init__(self, folder: Path, *, url: str, admin_url: str, archiver_url: str) -> None:
        self.folder = folder
        self.log = folder / "redis.log"
        self.url = url
        self.admin_url = admin_url
        self.archiver_url = archiver_url
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """What runs the server, in the foreground."""

    def environment(self) -> dict[str, str]:
        return {"PATH": os.defpath, "LC_ALL": "C"}

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def spawn(self, *options: str, **environment: str) -> None:
        """Run the server with more options. Does not wait for it."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.command(), *options], stdout=log, stderr=log, env=self.environment() | environment
            )

    def start(self, *options: str, **environment: str) -> None:
        """As `spawn`, until the server answers and has read its data."""
        self.spawn(*options, **environment)
        self.wait_ready()

    def wait_ready(self) -> None:
        process = self._process
        assert process is not None

        def is_answered() -> bool:
            assert process.poll() is None, self.log.read_text()
            with suppress(redis.ConnectionError):  # LOADING is one, too
                return bool(self.admin().ping())
            return False

        until(is_answered)

    def admin(self) -> redis.Redis:
        """An operator's connection."""
        return plain(self.admin_url)

    def kill(self) -> None:
        """SIGKILL; returns when the process has ended."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """An orderly end. A server that writes its first append-only file refuses one, hence the repetition."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGCONT)
        for _ in range(200):
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.5)
                return
        self.kill()


class EmbeddedServer(RedisProcess):
    """The bundled binary with the configuration of the embedded server, on a unix socket."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "redis.sock"
        url = f"unix://{self.socket}"
        super().__init__(folder, url=url, admin_url=url, archiver_url=url)
        self._conf = folder / "redis.conf"
        self._conf.write_text(embedded_conf(directory=folder, socket=self.socket))

    def command(self) -> list[str]:
        return [str(bundled_server()), str(self._conf)]

    def mended(self) -> bool:
        """What an operator does once the server has refused an append-only file with a torn end: remove that end.
        Returns whether there was one."""
        assert self._process is not None
        if self._process.poll() is None or "Unexpected end of file" not in self.log.read_text()[-1000:]:
            return False
        checker = self.folder / "redis-check-aof"  # by this name the server's binary is the checker
        if not checker.exists():
            checker.symlink_to(bundled_server())
        command = [str(checker), "--fix", str(self.folder / "ledger.aof")]
        subprocess.run(command, input=b"y\n", stdout=subprocess.DEVNULL, check=True)
        return True


class GuardedServer(EmbeddedServer):
    """The bundled server with the users of `deploy/users.acl`.

    The ledger is its user `gateway`, so that every test over `url` also shows that these rights suffice.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        users = (DEPLOY / "users.acl").read_text()
        for name, password in PASSWORDS.items():
            digest = hashlib.sha256(password.encode()).hexdigest()
            users = users.replace(f"{name.upper()}_PASSWORD_SHA256", digest)
        (folder / "users.acl").write_text(users)
        self._conf.write_text(f'{self._conf.read_text()}aclfile "{folder / "users.acl"}"\n')
        self.url, self.archiver_url, self.admin_url = (
            f"unix://{name}:{password}@{self.socket}" for name, password in PASSWORDS.items()
        )


class DeployedServer(RedisProcess):
    """An installed redis-server by `deploy/redis-start.sh`, over TCP; the ledger comes in as the user `gateway`."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        url = "redis://{}:{}@127.0.0.1:{}/0"
        super().__init__(
            folder,
            url=url.format("gateway", REDIS_PASSWORD, self.port),
            admin_url=url.format("admin", REDIS_ADMIN_PASSWORD, self.port),
            archiver_url=url.format("archiver", REDIS_ARCHIVER_PASSWORD, self.port),
        )

    def command(self) -> list[str]:
        # exec: the server must be this process, whatever the shell of /bin/sh does
        return ["sh", str(DEPLOY / "redis-start.sh"), "--port", str(self.port), "--dir", str(self.folder)]

    def environment(self) -> dict[str, str]:
        binary = installed_server()
        assert binary is not None
        return {
            "PATH": f"{binary.parent}:{os.defpath}", "LC_ALL": "C", "REDIS_PASSWORD": REDIS_PASSWORD,
            "REDIS_ARCHIVER_PASSWORD": REDIS_ARCHIVER_PASSWORD, "REDIS_ADMIN_PASSWORD": REDIS_ADMIN_PASSWORD,
            "REDIS_USERS_FILE": str(self.folder / "users.acl"),
        }  # fmt: skip


@contextmanager
def running_server(folder: Path, kind: type[RedisProcess] = EmbeddedServer) -> Iterator[Any]:
    """A server whose data are in the new `folder`, until the end of the block."""
    folder.mkdir()
    server = kind(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()
