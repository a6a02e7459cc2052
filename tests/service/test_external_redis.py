"""A Redis of one's own by `REDIS_URL`: Debian's server with the shipped configuration, and one with a wrong one."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gateway_kit import Gateway, refused_start

SERVER = shutil.which("redis-server")
CONF = Path(__file__).parents[2] / "deploy/redis.conf"

pytestmark = pytest.mark.skipif(SERVER is None, reason="no redis-server is installed")


@contextmanager
def redis_server(folder: Path, *options: str) -> Iterator[str]:
    """A server on a unix socket; yields its URL."""
    socket = folder / "own.sock"
    command = [str(SERVER), str(CONF), "--dir", str(folder), "--port", "0", "--unixsocket", str(socket), *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 10
        while not socket.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield f"unix://{socket}"
    finally:
        process.terminate()
        process.wait(10)


def test_the_gateway_serves_on_a_redis_of_ones_own(tmp_path: Path) -> None:
    with redis_server(tmp_path) as url:
        gateway = Gateway(tmp_path / "data", {"REDIS_URL": url})
        try:
            tenant = gateway.tenant(epsilon=2)
            assert [tenant.embed(epsilon=1).status_code for _ in range(3)] == [200, 200, 403]
            assert tenant.committed() == 2.0
            assert not (gateway.data_dir / "redis").exists(), "no second ledger beside the configured one"
        finally:
            gateway.stop()


def test_a_server_that_could_lose_a_hold_is_refused(tmp_path: Path) -> None:
    with redis_server(tmp_path, "--appendfsync", "everysec") as url:
        assert "appendfsync" in refused_start(tmp_path / "data", {"REDIS_URL": url})
