"""An archiver of another process removes entries while an audit or a start reads: none reports a fault.

Each test repeats its reader, and lets the other process seal, archive and remove before the reader's first command,
then before its second one, and so on until the reader has no further command.
"""

import pytest
from archive_kit import Shelf
from ledger_kit import MASTER_KEY

from core.ledger.archive.store import LedgerArchive
from core.ledger.hash_chain.audit import audit_ledger
from core.ledger.hash_chain.sealer import Sealer
from core.redis.client import LedgerClient, connect

KEEPS_LITTLE = {"keep_entries": 1, "object_bytes": 1, "keep_seals": 1}


class InterruptedClient(LedgerClient):
    """Awaits `work` before its command number `at`."""

    def __init__(self, url: str) -> None:
        super().__init__(connect(url=url))
        self.commands, self.at, self.work = 0, 0, None

    async def call(self, *command):
        await self._count()
        return await super().call(*command)

    async def run(self, *args, **options):
        await self._count()
        return await super().run(*args, **options)

    async def _count(self) -> None:
        self.commands += 1
        if self.commands == self.at:
            await self.work()


@pytest.fixture
def interrupted(go, server, client, admin, tmp_path):
    """Run `reader(client, shelf)` once for each of its commands, with an archiver's work before that command."""
    slow = InterruptedClient(server.url)

    async def one(reader, at: int) -> bool:
        await admin.call("FLUSHALL")
        shelf = Shelf(client, tmp_path / str(at), trim_client=admin)
        await shelf.start()
        await shelf.open()
        await shelf.open("idle")
        await shelf.history(3)
        await shelf.round(**KEEPS_LITTLE | {"keep_entries": 100})
        await shelf.history(2)

        async def work():
            await shelf.history(3)
            found = await shelf.round(**KEEPS_LITTLE)
            assert found.trimmed

        slow.commands, slow.at, slow.work = 0, at, work
        await reader(slow, shelf)
        return slow.commands >= at

    async def every(reader) -> int:
        at = 1
        while await one(reader, at):
            at += 1
        return at - 1

    yield every
    go(slow.close())


def archive_of(slow: LedgerClient, shelf: Shelf) -> LedgerArchive:
    return LedgerArchive(slow, MASTER_KEY, shelf.blobs)


async def audits(slow, shelf):
    found = await audit_ledger(slow, MASTER_KEY, shelf.epoch_file, archive=archive_of(slow, shelf))
    assert found.ok, found


async def starts(slow, shelf):
    await Sealer(slow, MASTER_KEY, shelf.epoch_file, continues=archive_of(slow, shelf).continues).check()


SLOW = pytest.mark.slow("process")


@pytest.mark.parametrize(("reader", "commands"), [pytest.param(audits, 10, marks=SLOW), (starts, 5)])
def test_a_reader_beside_an_archiver_finds_every_entry_and_no_fault(go, interrupted, reader, commands):
    assert go(interrupted(reader)) > commands
