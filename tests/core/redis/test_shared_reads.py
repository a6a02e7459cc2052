"""Reads that concurrent callers share: what a caller gets is never older than its call."""

import asyncio

import pytest
from ledger_kit import MASTER_KEY, Gate

from core.errors import LedgerUnavailable
from core.redis.client import LedgerClient, SharedReads, connect
from core.state.keystore import KeyStore

READ = [("GET", "{shared}:a"), ("GET", "{shared}:b")]


@pytest.fixture
def behind_gate(go, server, tmp_path):
    """Run `scenario(client, gate)`, with a client whose commands go through the gate."""

    def run(scenario):
        async def gated():
            async with Gate(server.admin_url, tmp_path / "gate") as gate:
                client = LedgerClient(connect(url=gate.url))
                try:
                    await client.call("PING")
                    await scenario(client, gate)
                finally:
                    gate.open.set()
                    await client.close()

        go(gated())

    return run


def test_a_key_that_was_revoked_authenticates_nobody_beside_earlier_requests(behind_gate, go, acme, client):
    key = go(KeyStore(client, MASTER_KEY).create("acme", by="cli")).key

    async def scenario(gated, gate):
        store, other = KeyStore(gated, MASTER_KEY), KeyStore(client, MASTER_KEY)
        gate.open.clear()
        gate.answered.clear()
        early = [asyncio.create_task(store.authenticate(key)) for _ in range(3)]
        await gate.answered.wait()
        await other.revoke("acme", key.split("_")[1], by="cli")
        late = [asyncio.create_task(store.authenticate(key)) for _ in range(3)]
        await asyncio.sleep(0)
        gate.open.set()
        assert None not in await asyncio.gather(*early)
        assert await asyncio.gather(*late) == [None] * 3

    behind_gate(scenario)


def test_callers_that_leave_and_reads_that_fail_do_not_end_the_others(behind_gate, admin):
    async def scenario(client, gate):
        await admin.call("MSET", "{shared}:a", "1", "{shared}:b", "2")
        reads = SharedReads(client)
        first, second, third = (asyncio.create_task(reads.many(READ)) for _ in range(3))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == await third == [b"1", b"2"]
        failing = [reads.many([("GET", "{shared}:a", "too many")]) for _ in range(2)]
        errors = await asyncio.gather(*failing, return_exceptions=True)
        assert [type(error) for error in errors] == [LedgerUnavailable] * 2
        assert await reads.many(READ) == [b"1", b"2"]

    behind_gate(scenario)
