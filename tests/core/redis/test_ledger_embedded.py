"""The embedded server: one owner a data directory, never two servers on one append-only file."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from ledger_audit_kit import audit
from ledger_kit import MASTER_KEY, charge, limits
from redis_kit import installed_server

from core.amounts import NANO, Amount
from core.errors import LedgerUnavailable
from core.ledger.transitions import Ledger
from core.redis.client import LedgerClient, connect
from core.redis.embedded import EmbeddedRedis, answers, attached, socket_path

OWN_AND_WAIT = """
import asyncio, sys, pathlib
from core.redis.embedded import EmbeddedRedis
async def main():
    server = EmbeddedRedis(pathlib.Path(sys.argv[1]))
    await server.start()
    print(server.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
COMMAND = """
import asyncio, sys, pathlib
from core.redis import embedded
from core.redis.client import LedgerClient, connect
embedded.OWNER_WAIT_S = 300.0
async def main():
    async with embedded.attached(pathlib.Path(sys.argv[1])) as socket:
        client = LedgerClient(connect(socket_path=socket, timeout_s=60.0))
        print(int(await client.call("INCR", "visits")), flush=True)
        await client.close()
asyncio.run(main())
"""
ROOT = Path(__file__).parents[3]


async def lives(socket: Path) -> bool:
    """Waits for an answer: a busy machine may take longer for one than `answers` waits."""
    while not await answers(socket):
        await asyncio.sleep(0.05)
    return True


def process(code: str, data_dir: Path) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", code, str(data_dir)], stdout=subprocess.PIPE, text=True, cwd=ROOT)


async def one_release(socket: Path) -> Amount:
    client = LedgerClient(connect(socket_path=socket))
    ledger = Ledger(client, MASTER_KEY)
    await ledger.check()
    if not await ledger.tenants():
        await ledger.open_tenant("acme", limits=limits(5))
    hold = await ledger.reserve("acme", [charge(1)])
    await ledger.commit("acme", hold.release_id, response=b"x")
    report = await audit(ledger)
    assert report.ok
    state = await ledger.account("acme", "acme/sentence")
    await client.close()
    return state.committed


@pytest.mark.parametrize("which", ["bundled", "installed"])
def test_the_data_survives_an_orderly_restart(go, tmp_path, which):
    binary = installed_server() if which == "installed" else None
    if which == "installed" and binary is None:
        pytest.skip("no redis-server of version 7 or later is installed")

    async def scenario(expected):
        server = EmbeddedRedis(tmp_path, redis_server=binary)
        await server.start()
        assert await one_release(server.socket) == Amount(expected * NANO)
        await server.stop()
        assert not await answers(server.socket)

    go(scenario(1))
    go(scenario(2))
    assert stat.S_IMODE((tmp_path / "redis").stat().st_mode) == 0o700
    assert (tmp_path / "redis" / "redis.log").stat().st_size > 0


def test_any_data_path_gets_a_short_private_socket(go, tmp_path):
    for name in ("long" * 30, 'a "b" c'):
        data_dir = tmp_path / name
        socket = socket_path(data_dir)
        assert socket == socket_path(data_dir / ".." / data_dir.name)
        assert len(str(socket)) < 100

        async def scenario(data_dir=data_dir, socket=socket):
            async with attached(data_dir) as used:
                assert used == socket
                assert await one_release(used) == Amount(NANO)
                assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700

        go(scenario())
        if not socket.is_relative_to(data_dir):
            socket.parent.rmdir()


def test_a_second_owner_is_refused(go, tmp_path):
    async def scenario():
        server = EmbeddedRedis(tmp_path)
        await server.start()
        with pytest.raises(LedgerUnavailable, match="Another gateway runs"):
            await EmbeddedRedis(tmp_path).start(owner_wait_s=0.2)
        assert await lives(server.socket)
        await server.stop()

    go(scenario())


@pytest.mark.usefixtures("processes")
def test_a_server_whose_owner_was_killed_is_shut_down_first(go, tmp_path):
    owner = process(OWN_AND_WAIT, tmp_path)
    orphan = int(owner.stdout.readline())
    socket = socket_path(tmp_path)
    assert go(one_release(socket)) == Amount(NANO)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    assert go(lives(socket))  # it lives on ...

    async def scenario():
        server = EmbeddedRedis(tmp_path)
        await server.start()  # ... until a new owner replaces it
        assert server.pid != orphan
        assert await one_release(server.socket) == Amount(2 * NANO)
        await server.stop()

    go(scenario())


@pytest.mark.usefixtures("processes")
def test_an_orphan_that_does_not_stop_is_never_joined_by_a_second_server(go, tmp_path, monkeypatch):
    monkeypatch.setattr("core.redis.embedded.SHUTDOWN_WAIT_S", 0.3)
    owner = process(OWN_AND_WAIT, tmp_path)
    orphan = int(owner.stdout.readline())
    owner.kill()
    owner.wait()
    owner.stdout.close()
    os.kill(orphan, signal.SIGSTOP)
    try:
        with pytest.raises(LedgerUnavailable, match="does not stop"):
            go(EmbeddedRedis(tmp_path).start())
    finally:
        os.kill(orphan, signal.SIGKILL)


@pytest.mark.usefixtures("processes")
def test_commands_use_the_gateways_server_or_their_own(go, tmp_path):
    async def beside_a_gateway():
        server = EmbeddedRedis(tmp_path)
        await server.start()
        commands = [process(COMMAND, tmp_path) for _ in range(2)]
        counts = {int((await asyncio.to_thread(each.communicate))[0]) for each in commands}
        assert await lives(server.socket)
        await server.stop()
        return counts

    assert go(beside_a_gateway()) == {1, 2}
    commands = [process(COMMAND, tmp_path) for _ in range(2)]  # one after the other, on servers of their own
    assert {int(each.communicate(timeout=300)[0]) for each in commands} == {3, 4}
    assert not go(answers(socket_path(tmp_path)))


def test_a_gateway_waits_for_a_command(go, tmp_path):
    async def scenario():
        server = EmbeddedRedis(tmp_path)
        async with attached(tmp_path):
            starting = asyncio.create_task(server.start(owner_wait_s=300.0))
            await asyncio.sleep(0.2)
            assert not starting.done()
        await starting
        assert await one_release(server.socket) == Amount(NANO)
        await server.stop()

    go(scenario())


def test_a_torn_file_stops_the_start(go, tmp_path):
    async def scenario():
        async with attached(tmp_path) as socket:
            await one_release(socket)

    go(scenario())
    file = tmp_path / "redis" / "ledger.aof"
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(LedgerUnavailable, match=r"redis\.log"):
        go(scenario())


def test_a_missing_binary_is_reported(go, tmp_path):
    with pytest.raises(LedgerUnavailable):
        go(EmbeddedRedis(tmp_path, redis_server=tmp_path / "no-redis-server").start())
