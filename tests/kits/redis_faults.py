"""Ways in which a Redis fails its ledger; each is a context in which it does, and mends it at the end."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import redis
from redis_kit import RedisProcess

FILLING = 100_000  # keys whose load outlasts a stall of the test: it would take 10 s
LOAD_DELAY_US = 100  # a key


@contextmanager
def down(server: RedisProcess) -> Iterator[None]:
    server.kill()
    yield
    server.start()


@contextmanager
def hanging(server: RedisProcess) -> Iterator[None]:
    """Takes commands and does not answer. It runs what it was sent once it goes on."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@contextmanager
def loading(server: RedisProcess) -> Iterator[None]:
    """LOADING: it has been started again and reads its data."""
    with server.admin() as admin:
        pipeline = admin.pipeline(transaction=False)
        for number in range(FILLING):
            pipeline.set(f"filling:{number}", number)
        pipeline.execute()
    server.stop()
    server.spawn("--key-load-delay", str(LOAD_DELAY_US))
    _wait_for(server, redis.exceptions.BusyLoadingError)
    yield
    server.kill()
    server.start()


@contextmanager
def full(server: RedisProcess) -> Iterator[None]:
    """OOM."""
    with server.admin() as admin:
        admin.config_set("maxmemory", 1)
        try:
            yield
        finally:
            admin.config_set("maxmemory", 0)


@contextmanager
def read_only(server: RedisProcess) -> Iterator[None]:
    """READONLY: somebody made it a replica."""
    with server.admin() as admin:
        admin.replicaof("127.0.0.1", 1)
        try:
            yield
        finally:
            admin.replicaof("NO", "ONE")


@contextmanager
def without_replicas(server: RedisProcess) -> Iterator[None]:
    """NOREPLICAS: it wants more replicas than it has."""
    with server.admin() as admin:
        admin.config_set("min-replicas-to-write", 1)
        try:
            yield
        finally:
            admin.config_set("min-replicas-to-write", 0)


@contextmanager
def busy(server: RedisProcess) -> Iterator[None]:
    """BUSY: somebody's script does not end."""

    def endless() -> None:
        with server.admin() as admin, suppress(redis.ResponseError):  # that it was killed
            admin.eval("while true do end", 0)

    with server.admin() as admin:
        admin.config_set("lua-time-limit", 1)
        thread = threading.Thread(target=endless)
        thread.start()
        _wait_for(server, redis.exceptions.ResponseError)
        try:
            yield
        finally:
            admin.script_kill()
            thread.join()
            admin.config_set("lua-time-limit", 5000)


@contextmanager
def locked_out(server: RedisProcess) -> Iterator[None]:
    """The ledger's user is switched off, or on a server without users a password is set."""
    users = "gateway:" in server.url
    with server.admin() as admin:
        if users:
            admin.execute_command("ACL", "SETUSER", "gateway", "off")
        else:
            admin.config_set("requirepass", "changed")
        admin.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        try:
            yield
        finally:
            if users:
                admin.execute_command("ACL", "LOAD")
            else:
                admin.config_set("requirepass", "")


def _wait_for(server: RedisProcess, error: type[redis.RedisError]) -> None:
    """Until an operator's PING is answered with `error`."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            with server.admin() as admin:
                admin.ping()
        except error:
            return
        except redis.ConnectionError:
            time.sleep(0.01)
    raise AssertionError(server.log.read_text())


FAULTS: list[Callable[[RedisProcess], AbstractContextManager[None]]] = [
    down,
    hanging,
    loading,
    full,
    read_only,
    without_replicas,
    busy,
    locked_out,
]
