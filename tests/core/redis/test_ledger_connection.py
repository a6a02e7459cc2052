"""Shared connections: every caller gets its own answer or LedgerUnavailable, whatever happens to the others."""

import asyncio
import os
import random
import signal

import pytest
from ledger_kit import LOST_REPLY, MASTER_KEY, Gate, charge, claim, limits

from core.amounts import NANO, Amount
from core.errors import LedgerUnavailable
from core.ledger.transitions import Ledger
from core.redis.client import LedgerClient, connect


@pytest.fixture
def opened(go, server):
    """Clients of the test's own, with an operator's rights, closed at its end."""
    clients = []

    def open_client(url=None, **options):
        clients.append(LedgerClient(connect(url=url or server.admin_url, **options)))
        return clients[-1]

    yield open_client
    for client in clients:
        go(client.close())


async def connections_of(admin, name=b"shared"):
    return [line for line in (await admin.call("CLIENT", "LIST")).split(b"\n") if b"name=" + name + b" " in line]


async def answered(client, *command):
    """The answer to a command that may wait for a busy machine longer than the client does."""
    while True:
        try:
            return await client.call(*command)
        except LedgerUnavailable:
            await asyncio.sleep(0.01)


async def named(call):
    await call("CLIENT", "SETNAME", "shared")


def test_replies_never_cross_under_cancellation(go, opened):
    client = opened(max_connections=3, max_commands=20)
    chance = random.Random(1)

    async def ask(number):
        await asyncio.sleep(chance.random() / 50)
        word = f"{number}-{'x' * chance.randrange(2000)}"
        assert await client.call("ECHO", word) == word.encode()
        return True

    async def scenario():
        asking = [asyncio.create_task(ask(number)) for number in range(1000)]
        for task in chance.sample(asking, 400):
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_later(chance.random() / 50, task.cancel)
        results = await asyncio.gather(*asking, return_exceptions=True)
        assert all(result is True or isinstance(result, asyncio.CancelledError) for result in results), results
        assert results.count(True) >= 600
        assert await ask("after")

    go(scenario())


def test_replies_never_cross_when_connections_drop(go, ledger, faulty):
    go(ledger.open_tenant("acme", limits=limits(1_000_000)))
    through, chance, failed = Ledger(faulty.client, MASTER_KEY), random.Random(3), []

    async def work(number):
        word = f"word-{number}"
        try:
            hold = await through.reserve("acme", [charge(1)], claim=claim(word))
            settled = await through.commit("acme", hold.release_id, response=word.encode())
            assert settled.release_id == hold.release_id
            replay = await through.reserve("acme", [charge(1)], claim=claim(word))
            assert replay.response == word.encode()
        except LedgerUnavailable:
            failed.append(number)

    async def scenario():
        for start in range(0, 600, 30):
            working = asyncio.gather(*(work(number) for number in range(start, start + 30)))
            await asyncio.sleep(chance.random() / 100)
            faulty.plan = [LOST_REPLY]
            await working

    go(scenario())
    assert faulty.met >= 10
    assert len(failed) < 300
    committed = go(ledger.account("acme", "acme/sentence")).committed.epsilon_nano
    assert (600 - len(failed)) * NANO <= committed <= 600 * NANO


def test_a_late_reply_answers_nobody_else(go, opened, admin, server):
    hasty = opened(timeout_s=0.2, max_connections=1)

    async def scenario():
        assert await answered(hasty, "PING")
        os.kill(server.pid, signal.SIGSTOP)
        try:
            calls = (hasty.call("ECHO", f"late-{number}") for number in range(6))
            results = await asyncio.gather(*calls, return_exceptions=True)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert all(isinstance(result, LedgerUnavailable) for result in results), results
        await admin.call("PING")  # the server answers again, and the late reply went nowhere
        for number in range(20):
            assert await answered(hasty, "ECHO", f"next-{number}") == f"next-{number}".encode()

    go(scenario())


def test_every_connection_is_guarded_before_it_is_used(go, opened, admin):
    guarded = opened(max_connections=4)
    guarded.guard_connections(named)

    async def burst():
        return await asyncio.gather(*(guarded.call("CLIENT", "GETNAME") for _ in range(200)))

    async def scenario():
        while len(await connections_of(admin)) < 4:
            assert set(await burst()) == {b"shared"}
        for _ in range(3):
            for line in await connections_of(admin):
                await admin.call("CLIENT", "KILL", "ID", line.split()[0].removeprefix(b"id="))
            while await connections_of(admin):
                await asyncio.sleep(0.01)
            for _ in range(20):  # until this side has noticed, also after a stop of this process
                await asyncio.sleep(0.001)
            assert set(await burst()) == {b"shared"}

    go(scenario())


def test_a_refusing_guard_refuses_the_callers_and_closes_the_connection(go, opened, admin):
    guarded = opened()
    refuse = True

    async def guard(call):
        await named(call)
        if refuse:
            raise LedgerUnavailable("This is another ledger.")

    guarded.guard_connections(guard)

    async def scenario():
        nonlocal refuse
        results = await asyncio.gather(*(guarded.call("PING") for _ in range(20)), return_exceptions=True)
        assert {str(result) for result in results} == {"This is another ledger."}
        with pytest.raises(LedgerUnavailable, match="another ledger"):
            await guarded.run("accounts", key="{acme}:tenant", args={"names": []})
        while await connections_of(admin):
            await asyncio.sleep(0.01)
        refuse = False
        assert await guarded.call("PING")

    go(scenario())


def test_a_command_that_waits_too_long_for_a_turn_is_refused_and_not_sent(go, opened, server, tmp_path):
    async def scenario():
        async with Gate(server.admin_url, tmp_path / "gate") as gate:
            bounded = opened(gate.url, timeout_s=0.2, max_commands=1)
            await answered(bounded, "PING")
            gate.open.clear()
            results = await asyncio.gather(*(bounded.call("ECHO", "x") for _ in range(3)), return_exceptions=True)
            assert all(isinstance(result, LedgerUnavailable) for result in results)
            gate.open.set()
            assert await answered(bounded, "ECHO", "again") == b"again"

    go(scenario())


def test_forgotten_scripts_under_concurrency(go, ledger, admin):
    go(ledger.open_tenant("acme", limits=limits(1_000)))

    async def scenario():
        for _ in range(3):
            await admin.call("SCRIPT", "FLUSH")
            holds = await asyncio.gather(*(ledger.reserve("acme", [charge(1)]) for _ in range(50)))
            assert len({hold.release_id for hold in holds}) == 50

    go(scenario())
    assert go(ledger.account("acme", "acme/sentence")).reserved == Amount(150 * NANO)


def test_a_refused_command_fails_alone(go, opened):
    client = opened(max_connections=1)

    async def scenario():
        calls = [client.call("ECHO", f"{n}") if n % 3 else client.call("NO-SUCH-COMMAND") for n in range(60)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        for number, result in enumerate(results):
            if number % 3:
                assert result == str(number).encode()
            else:
                assert isinstance(result, LedgerUnavailable)
                assert str(result) == "Redis refused a command."

    go(scenario())


def test_closing_fails_what_is_in_flight_and_leaves_no_connection(go, opened, admin, server, tmp_path):
    async def scenario():
        async with Gate(server.admin_url, tmp_path / "gate") as gate:
            closing = opened(gate.url)
            closing.guard_connections(named)
            await closing.call("PING")
            gate.open.clear()
            waiting = asyncio.create_task(closing.call("ECHO", "x"))
            while b"ECHO" not in gate.requests:
                await asyncio.sleep(0.001)
            await closing.close()
            with pytest.raises(LedgerUnavailable):
                await waiting
            gate.open.set()
            while await connections_of(admin):
                await asyncio.sleep(0.01)

    go(scenario())
