"""The epoch outside Redis: a restored old append-only file is noticed, at start and while a gateway runs."""

import json
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from book_kit import Book
from ledger_kit import MASTER_KEY, charge, limits

from core.amounts import NANO, Amount
from core.blobs.local import LocalBlobs
from core.errors import LedgerNotTrusted, LedgerUnavailable
from core.ledger.hash_chain.chain import SealId
from core.ledger.hash_chain.epoch import KEPT, Epoch, EpochFile, EpochStore
from core.ledger.hash_chain.sealer import Sealer
from core.master_key import MasterKey
from core.redis.client import LedgerClient, connect


class Place(Book):
    """A ledger, an epoch file on another disk, and copies of the ledger as an operator makes them."""

    @property
    def epoch(self) -> int:
        return int(json.loads(self.epoch_file.read_text())["epoch"])

    async def start(self, epoch_file: Path | None = None, shared: EpochStore | None = None) -> Sealer:
        """What a gateway does at its start."""
        sealer = self.fresh_sealer(epoch_file, shared)
        await self.ledger.check()
        await sealer.check()
        await sealer.seal(always=True)
        await sealer.store_epoch()
        return sealer

    async def live(self, releases: int, **files) -> None:
        """A gateway starts, makes releases and seals them."""
        sealer = await self.start(**files)
        if not await self.ledger.tenants():
            await self.ledger.open_tenant("acme", limits=limits(10))
        for _ in range(releases):
            await self.release()
        await sealer.seal()
        await sealer.store_epoch()


@pytest.fixture
def place(client, admin, tmp_path) -> Place:
    return Place(client, admin, tmp_path / "other-disk" / "ledger.epoch")


def refused(go, place: Place, match: str, **files) -> None:
    with pytest.raises(LedgerNotTrusted, match=match):
        go(place.start(**files))


@pytest.fixture
def restored(go, place) -> Place:
    """Two releases, a copy, three more, and the copy is back: five left the gateway, the ledger knows two."""
    go(place.live(2))
    go(place.copy("old"))
    go(place.live(3))
    assert place.epoch == 4
    go(place.restore("old"))
    return place


def test_every_start_and_every_seal_moves_the_epoch(go, place):
    epochs = []
    for _ in range(3):
        go(place.live(1))
        epochs.append(place.epoch)
    assert epochs == [2, 4, 6]
    assert stat.S_IMODE(place.epoch_file.stat().st_mode) == 0o600
    assert [file.name for file in place.epoch_file.parent.iterdir()] == ["ledger.epoch"], "no drafts are left"


def test_an_older_ledger_an_empty_one_and_another_one_are_refused(go, restored, admin, tmp_path):
    refused(go, restored, "older state than this gateway has seen")
    refused(go, restored, "ledger.md")
    go(admin.call("FLUSHALL"))
    refused(go, restored, "holds no ledger, and this gateway has seen seal 4")
    go(admin.call("FLUSHALL"))
    go(restored.live(1, epoch_file=tmp_path / "other.epoch"))
    refused(go, restored, "EPOCH_FILE name the wrong one")


def test_another_history_of_the_same_length_is_refused(go, restored, tmp_path):
    for _ in range(2):  # a gateway without this epoch file took the old copy and went on
        go(restored.live(1, epoch_file=tmp_path / "elsewhere.epoch"))
    refused(go, restored, "another history")


def test_a_damaged_file_is_refused(go, place):
    go(place.live(1))
    for content in (b"", b"{}", b'{"ledger": "x", "epoch": "y", "mac": ""}', b"\xff"):
        place.epoch_file.write_bytes(content)
        refused(go, place, "epoch file .* cannot be read")


def test_a_file_that_cannot_be_opened_for_a_while_stops_nothing_for_good(go, place):
    """Such as while the process has too many open files."""
    go(place.live(1))
    sealer, aside = go(place.start()), place.epoch_file.with_name("aside")
    place.epoch_file.rename(aside)
    place.epoch_file.mkdir()
    for _ in range(2):  # a round without new entries, and one with a new entry
        with pytest.raises(LedgerUnavailable, match=r"epoch file .* cannot be opened") as refusal:
            go(sealer.seal())
        assert not isinstance(refusal.value, LedgerNotTrusted)
        go(place.release())
    place.epoch_file.rmdir()
    aside.rename(place.epoch_file)
    assert go(sealer.seal()) == place.epoch


def test_a_file_that_cannot_be_written_stops_the_start(go, place):
    place.epoch_file.parent.write_text("a file where the folder should be")
    with pytest.raises(LedgerUnavailable, match="epoch file"):
        go(place.live(1))


def test_a_crash_between_the_seal_and_the_file_refuses_nothing(go, place):
    go(place.live(1))
    before = place.epoch_file.read_bytes()
    go(place.live(1))
    place.epoch_file.write_bytes(before)
    go(place.live(1))
    assert place.epoch == 6


def test_an_operator_can_accept_what_was_restored_once(go, restored):
    behind = restored.epoch_file.with_name("second.epoch")
    shutil.copy(restored.epoch_file, behind)
    assert go(restored.fresh_sealer().accept_restore()) == 5, "above every seal that was seen"
    assert restored.epoch == 5
    assert go(restored.fresh_sealer().accept_restore()) is None
    go(restored.live(1))
    assert go(restored.ledger.account("acme", "acme/sentence")).committed == Amount(3 * NANO)
    assert go(restored.faults()) == ""
    go(restored.live(1, epoch_file=behind))  # other gateways follow by themselves
    go(restored.restore("old"))
    refused(go, restored, "older state")


def test_an_empty_redis_can_be_accepted(go, place, admin):
    go(place.live(1))
    go(admin.call("FLUSHALL"))
    go(place.ledger.check())
    assert go(place.fresh_sealer().accept_restore()) == 3
    go(place.live(1))
    assert place.epoch == 5


def test_what_is_damaged_or_foreign_is_not_accepted(go, restored, admin):
    def unexplained() -> None:
        go(admin.call("DEL", "{acme}:account:token"))

    def foreign() -> None:
        go(admin.call("SET", "{seals}:ledger", "0" * 32))

    for damage, match in (
        (unexplained, "token is missing"), (foreign, "another ledger"), (restored.epoch_file.unlink, "no epoch file"),
    ):  # fmt: skip
        damage()
        with pytest.raises(LedgerUnavailable, match=match):
            go(restored.fresh_sealer().accept_restore())
        go(restored.restore("old"))


def test_an_older_ledger_under_a_running_gateway_is_noticed(go, place, server):
    """By the next seal, and by each new connection. Every request gets the error of an unusable ledger."""
    go(place.live(2))
    go(place.copy("old"))
    for guards in (False, True):
        running = LedgerClient(connect(url=server.url))
        gateway = Place(running, place.admin, place.epoch_file.with_name(f"{guards}.epoch"))
        go(gateway.live(3))
        sealer = go(gateway.start())
        if guards:
            running.guard_connections(sealer.verify_connection)
        go(place.restore("old"))
        server.stop()
        server.start()
        if not guards:
            with pytest.raises(LedgerNotTrusted, match="older state"):
                go(sealer.seal())
        for reason in (*(("older state",) if guards else ()), "does not match its seals"):
            with pytest.raises(LedgerUnavailable, match=reason) as refusal:
                go(gateway.ledger.reserve("acme", [charge(1)]))
            assert refusal.value.code == "ledger-unavailable"
        go(running.close())


def test_a_restarted_server_on_the_same_file_is_no_alarm(go, place, server):
    go(place.live(3))
    sealer = go(place.start())
    server.stop()
    server.start()
    with suppress(LedgerUnavailable):  # the first command may find that the connection is closed
        go(place.client.call("PING"))
    go(sealer.verify_connection(place.client.call))
    go(place.release())
    assert go(sealer.seal()) == 4
    assert go(place.ledger.account("acme", "acme/sentence")).committed == Amount(4 * NANO)


@pytest.fixture
def blobs(tmp_path) -> LocalBlobs:
    return LocalBlobs(tmp_path / "bucket")


@pytest.fixture
def shared(blobs) -> EpochStore:
    return EpochStore(blobs, MASTER_KEY)


def test_a_gateway_without_an_epoch_file_notices_an_older_redis_by_the_store(go, place, shared, admin):
    def pod(number: int):
        return {"epoch_file": place.epoch_file.with_name(f"pod-{number}"), "shared": shared}

    go(place.live(2, **pod(1)))
    go(place.copy("old"))
    go(place.live(3, **pod(2)))
    assert go(shared.read()).seal.n == 4
    go(place.restore("old"))
    refused(go, place, "older state", **pod(3))
    go(admin.call("FLUSHALL"))
    refused(go, place, "holds no ledger", **pod(4))

    go(place.restore("old"))
    assert go(place.fresh_sealer(place.epoch_file.with_name("pod-5"), shared).accept_restore()) == 5
    assert go(shared.read()).seal.n == 5
    go(place.live(1, **pod(6)))


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
        content.replace(f"{KEPT + 4:064x}".encode(), b"f" * 64), b"{}", b"no JSON",
    ):  # fmt: skip
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
