"""The epoch outside Redis: a restored old append-only file is noticed, at start and while a gateway runs."""

from __future__ import annotations

import json
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from ledger_kit import MASTER_KEY, charge, limits

from core.amounts import NANO, Amount
from core.blobs.local import LocalBlobs
from core.errors import LedgerNotTrusted, LedgerUnavailable
from core.ledger.client import LedgerClient, connect
from core.ledger.embedded import EmbeddedRedis
from core.ledger.hash_chain.audit import audit_ledger
from core.ledger.hash_chain.chain import SealId
from core.ledger.hash_chain.epoch import Epoch, EpochFile
from core.ledger.hash_chain.epoch_store import KEPT, EpochStore
from core.ledger.hash_chain.sealer import Sealer
from core.ledger.keys import MasterKey
from core.ledger.ledger import Ledger


class Place:
    """A data directory, an epoch file on another disk, and copies of the append-only file as an operator makes them."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.epoch_file = folder / "other-disk" / "ledger.epoch"
        self._folder = folder

    @property
    def epoch(self) -> int:
        return json.loads(self.epoch_file.read_text())["epoch"]

    def back_up(self, name: str) -> None:
        shutil.copytree(self.data / "redis", self._folder / name, ignore=shutil.ignore_patterns("*.sock", "*.lock"))

    def restore(self, name: str) -> None:
        for file in (self.data / "redis").glob("*.aof"):
            file.unlink()
        shutil.copytree(self._folder / name, self.data / "redis", dirs_exist_ok=True)

    @asynccontextmanager
    async def running(self, *, epoch_file: Path | None = None, start: bool = True, shared: EpochStore | None = None):
        """A server, and what a gateway does with it at its start."""
        server = EmbeddedRedis(self.data)
        await server.start()
        client = LedgerClient(connect(socket_path=server.socket))
        ledger, sealer = (
            Ledger(client, MASTER_KEY),
            Sealer(client, MASTER_KEY, epoch_file or self.epoch_file, epoch_store=shared),
        )
        try:
            await ledger.check()
            if start:
                await sealer.check()
                await sealer.seal(always=True)
                await sealer.store_epoch()
            yield Running(server, client, ledger, sealer)
        finally:
            await client.close()
            await server.stop()


class Running:
    def __init__(self, server: EmbeddedRedis, client: LedgerClient, ledger: Ledger, sealer: Sealer) -> None:
        self.server, self.client, self.ledger, self.sealer = server, client, ledger, sealer

    async def release(self, count: int = 1) -> None:
        if not await self.ledger.tenants():
            await self.ledger.open_tenant("acme", limits=limits(10))
        for _ in range(count):
            hold = await self.ledger.reserve("acme", [charge(1)])
            await self.ledger.commit("acme", hold.release_id)

    async def spent(self) -> Amount:
        return (await self.ledger.account("acme", "acme/sentence")).committed


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


async def live(place: Place, releases: int) -> None:
    async with place.running() as running:
        await running.release(releases)
        await running.sealer.seal()


def refused(go, place: Place, match: str) -> None:
    async def start() -> None:
        async with place.running():
            raise AssertionError("the gateway started")

    with pytest.raises(LedgerNotTrusted, match=match):
        go(start())


@pytest.fixture
def restored(go, place) -> Place:
    """Two releases, a copy, three more, and the copy is back: five left the gateway, the ledger knows two."""
    go(live(place, 2))
    place.back_up("old")
    go(live(place, 3))
    assert place.epoch == 4
    place.restore("old")
    return place


def test_every_start_and_every_seal_moves_the_epoch(go, place):
    epochs = []
    for _ in range(3):
        go(live(place, 1))
        epochs.append(place.epoch)
    assert epochs == [2, 4, 6]
    assert stat.S_IMODE(place.epoch_file.stat().st_mode) == 0o600
    assert [file.name for file in place.epoch_file.parent.iterdir()] == ["ledger.epoch"], "no drafts are left"


def test_a_restored_old_file_is_refused(go, restored):
    refused(go, restored, "older state than this gateway has seen")
    refused(go, restored, "ledger.md")


def test_a_copy_from_before_a_start_without_releases_is_refused(go, place):
    go(live(place, 1))
    place.back_up("old")
    go(live(place, 0))
    place.restore("old")
    refused(go, place, "older state")


def test_an_empty_redis_is_refused(go, place):
    go(live(place, 1))
    shutil.rmtree(place.data / "redis")
    refused(go, place, "holds no ledger, and this gateway has seen seal 2")


def test_the_file_of_another_ledger_is_named_as_such(go, place, tmp_path):
    go(live(place, 1))
    other = Place(tmp_path / "other")
    go(live(other, 1))
    other.epoch_file.replace(place.epoch_file)
    refused(go, place, "EPOCH_FILE name the wrong one")


def test_another_history_of_the_same_length_is_refused(go, restored, tmp_path):
    async def go_on_elsewhere() -> None:  # a gateway without this epoch file took the old copy and went on
        async with restored.running(epoch_file=tmp_path / "elsewhere.epoch") as running:
            for _ in range(3):
                await running.release()
                await running.sealer.seal()

    go(go_on_elsewhere())
    refused(go, restored, "another history")


@pytest.mark.parametrize("content", [b"", b"{}", b'{"ledger": "x", "epoch": "y", "mac": ""}', b"\xff"])
def test_a_damaged_file_is_refused(go, place, content):
    go(live(place, 1))
    place.epoch_file.write_bytes(content)
    refused(go, place, "epoch file .* cannot be read")


def test_a_file_that_cannot_be_opened_for_a_while_stops_nothing_for_good(go, place):
    """Such as while the process has too many open files."""
    aside = place.epoch_file.with_name("aside")

    async def main() -> None:
        async with place.running() as running:
            await running.release()
            await running.sealer.seal()
            place.epoch_file.rename(aside)
            place.epoch_file.mkdir()
            for _ in range(2):  # a round without new entries, and one with a new entry
                with pytest.raises(LedgerUnavailable, match=r"epoch file .* cannot be opened") as refusal:
                    await running.sealer.seal()
                assert not isinstance(refusal.value, LedgerNotTrusted)
                await running.release()
            place.epoch_file.rmdir()
            aside.rename(place.epoch_file)
            assert await running.sealer.seal() == place.epoch

    go(main())


def test_a_file_that_cannot_be_written_stops_the_start(go, place):
    place.epoch_file.parent.parent.joinpath("other-disk").write_text("a file where the folder should be")
    with pytest.raises(LedgerUnavailable, match="epoch file"):
        go(live(place, 1))


def test_a_crash_between_the_seal_and_the_file_refuses_nothing(go, place):
    go(live(place, 1))
    before = place.epoch_file.read_bytes()
    go(live(place, 1))
    place.epoch_file.write_bytes(before)
    go(live(place, 1))
    assert place.epoch == 6


def test_a_further_gateway_starts_its_own_file(go, place, tmp_path):
    go(live(place, 1))

    async def further() -> None:
        async with place.running(epoch_file=tmp_path / "second.epoch") as running:
            await running.release()

    go(further())
    go(live(place, 1))
    assert json.loads((tmp_path / "second.epoch").read_text())["epoch"] == 3


def test_an_operator_can_take_over_what_was_restored(go, restored):
    async def accept() -> int | None:
        async with restored.running(start=False) as running:
            return await running.sealer.accept_restore()

    assert go(accept()) == 5, "above every seal that was seen"
    assert restored.epoch == 5
    assert go(accept()) is None

    async def go_on() -> None:
        async with restored.running() as running:
            assert await running.spent() == Amount(2 * NANO)
            await running.release()
            report = await audit_ledger(running.client, MASTER_KEY, restored.epoch_file)
            assert report.ok, report
            assert report.seals == 4  # 1 and 2 of the copy, 5 that accepts it, 6 of this start

    go(go_on())
    restored.restore("old")  # what was accepted once is not accepted for ever
    refused(go, restored, "older state")


def test_other_gateways_follow_an_accepted_restore_by_themselves(go, restored):
    async def accept_and_follow() -> None:
        behind = restored.epoch_file.with_name("second.epoch")
        shutil.copy(restored.epoch_file, behind)
        async with restored.running(start=False) as running:
            await running.sealer.accept_restore()
        async with restored.running(epoch_file=behind) as running:
            await running.release()

    go(accept_and_follow())


def test_an_empty_redis_can_be_accepted(go, place):
    go(live(place, 1))
    shutil.rmtree(place.data / "redis")

    async def accept() -> None:
        async with place.running(start=False) as running:
            assert await running.sealer.accept_restore() == 3
        await live(place, 1)

    go(accept())
    assert place.epoch == 5


def test_what_is_damaged_or_foreign_is_not_accepted(go, restored, tmp_path):
    async def accept(damage) -> None:
        async with restored.running(start=False) as running:
            await damage(running)
            await running.sealer.accept_restore()

    async def unexplained(running: Running) -> None:
        await running.client.call("DEL", "{acme}:account:token")

    async def foreign(running: Running) -> None:
        await running.client.call("SET", "{seals}:ledger", "0" * 32)

    async def no_file(running: Running) -> None:
        restored.epoch_file.unlink()

    restored.back_up("again")
    for damage, match in ((unexplained, "token is missing"), (foreign, "another ledger"), (no_file, "no epoch file")):
        with pytest.raises(LedgerUnavailable, match=match):
            go(accept(damage))
        restored.restore("again")


def test_a_server_replaced_under_a_running_gateway_is_noticed(go, place):
    go(live(place, 2))
    place.back_up("old")

    async def scenario(notice) -> None:
        async with place.running() as running:
            await running.release(3)
            await running.sealer.seal()
            await running.server.stop()
            place.restore("old")
            await running.server.start()
            with pytest.raises(LedgerNotTrusted, match="older state"):
                await notice(running)
            with pytest.raises(LedgerUnavailable, match="does not match its seals"):
                await running.ledger.reserve("acme", [charge(1)])

    async def next_round(running: Running) -> None:
        await running.sealer.seal()

    async def new_connection(running: Running) -> None:
        other = LedgerClient(connect(socket_path=running.server.socket))
        try:
            await running.sealer.verify_connection(other.call)
        finally:
            await other.close()

    go(scenario(next_round))
    place.epoch_file.unlink()
    go(scenario(new_connection))


def test_a_request_that_meets_an_older_ledger_gets_the_error_of_every_unusable_ledger(go, place):
    go(live(place, 2))
    place.back_up("old")

    async def scenario() -> None:
        async with place.running() as running:
            running.client.guard_connections(running.sealer.verify_connection)
            await running.release(3)
            await running.sealer.seal()
            await running.server.stop()
            place.restore("old")
            await running.server.start()
            for reason in ("older state", "does not match its seals"):  # at the new connection, and afterwards
                with pytest.raises(LedgerUnavailable, match=reason) as refused:
                    await running.ledger.reserve("acme", [charge(1)])
                assert refused.value.code == "ledger-unavailable"
            with pytest.raises(LedgerNotTrusted, match="does not match its seals"):
                await running.sealer.seal()

    go(scenario())


def test_a_restarted_server_on_the_same_file_is_no_alarm(go, place):
    async def scenario() -> None:
        async with place.running() as running:
            await running.release(3)
            await running.server.stop()
            await running.server.start()
            await running.sealer.verify_connection(running.client.call)
            await running.release()
            assert await running.sealer.seal() == 2
            assert await running.spent() == Amount(4 * NANO)

    go(scenario())


@pytest.fixture
def blobs(tmp_path) -> LocalBlobs:
    return LocalBlobs(tmp_path / "bucket")


@pytest.fixture
def shared(blobs) -> EpochStore:
    return EpochStore(blobs, MASTER_KEY)


def test_a_gateway_without_an_epoch_file_notices_an_older_redis_by_the_store(go, place, shared):
    async def pod(number: int, releases: int) -> None:
        async with place.running(epoch_file=place.epoch_file.with_name(f"pod-{number}"), shared=shared) as running:
            await running.release(releases)
            await running.sealer.seal()
            await running.sealer.store_epoch()

    go(pod(1, 2))
    place.back_up("old")
    go(pod(2, 3))
    assert go(shared.read()).seal.n == 4
    place.restore("old")
    with pytest.raises(LedgerNotTrusted, match="older state"):
        go(pod(3, 0))
    shutil.rmtree(place.data / "redis")
    with pytest.raises(LedgerNotTrusted, match="holds no ledger"):
        go(pod(4, 0))

    async def accept() -> int | None:
        async with place.running(epoch_file=place.epoch_file.with_name("pod-5"), start=False, shared=shared) as running:
            return await running.sealer.accept_restore()

    place.restore("old")
    assert go(accept()) == 5
    assert go(shared.read()).seal.n == 5
    go(pod(6, 1))


def test_only_genuine_epochs_count_and_old_ones_are_deleted(go, blobs, shared):
    assert go(shared.read()) is None
    for n in range(1, KEPT + 5):
        go(shared.write(Epoch("ledger", SealId(n, f"{n:064x}"))))
        go(EpochStore(blobs, MASTER_KEY).write(Epoch("ledger", SealId(n, f"{n:064x}"))))  # another gateway
    assert go(shared.read()) == Epoch("ledger", SealId(KEPT + 4, f"{KEPT + 4:064x}"))

    async def keys() -> list[str]:
        return [key async for key, _ in blobs.list("epoch")]

    newest = go(keys())[-1]
    assert len(go(keys())) == KEPT
    content = go(blobs.get(newest))
    for forged in (
        content.replace(b'"ledger":"ledger"', b'"ledger":"other"'),
        content.replace(f"{KEPT + 4:064x}".encode(), b"f" * 64),
        b"{}",
        b"no JSON",
    ):
        go(blobs.put(newest, forged))
        with pytest.raises(LedgerNotTrusted):
            go(shared.read())
    go(blobs.put(newest, content))
    go(blobs.put("epoch/0000000000009999", content))  # under another number
    with pytest.raises(LedgerNotTrusted, match="genuine"):
        go(shared.read())
    with pytest.raises(LedgerNotTrusted):
        go(EpochStore(blobs, MasterKey(bytes(32))).read())


def test_an_epoch_is_never_replaced_by_an_earlier_one_of_the_same_ledger(tmp_path: Path) -> None:
    """Several front ends of one gateway write the file."""
    file = EpochFile(tmp_path / "ledger.epoch")
    epochs = [Epoch("one", SealId(n, f"mac {n}")) for n in range(1, 30)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda epoch: EpochFile(file.path).write(epoch), [*epochs[::2], *epochs[1::2]]))
    assert file.read() == epochs[-1]
    file.write(epochs[0])
    assert file.read() == epochs[-1]
    file.write(Epoch("two", SealId(1, "mac")))
    assert file.read() == Epoch("two", SealId(1, "mac"))
