"""Seals: what was sealed cannot change unnoticed, and each kind of change is found where the ADR says."""

from __future__ import annotations

import asyncio

import msgpack
import orjson
import pytest
from book_kit import Book
from ledger_kit import LOST_REPLY, MASTER_KEY, charge, limits

from core.errors import LedgerNotTrusted, LedgerUnavailable
from core.ledger import pages
from core.ledger.client import LedgerClient, connect
from core.ledger.hash_chain.chain import SealChain
from core.ledger.hash_chain.sealer import Sealer
from core.ledger.keys import MasterKey
from core.ledger.ledger import Ledger


@pytest.fixture
def book(go, client, admin, tmp_path) -> Book:
    """Two tenants and three seals; after the second, copies of everything and of one tenant."""
    book = Book(client, admin, tmp_path / "ledger.epoch")

    async def history() -> None:
        await book.ledger.check()
        await book.sealer.check()
        await book.ledger.open_tenant("acme", limits=limits(100))
        await book.ledger.open_tenant("clinic", limits=limits(100), subject_limits=limits(10))
        await book.release()
        assert await book.sealer.seal() == 1
        await book.release("clinic", "patient-1")
        await book.release()
        assert await book.sealer.seal() == 2
        await book.copy("everything")
        await book.copy("acme", "{acme}:*")
        await book.copy("seals", "{seals}:*")
        await book.release()
        assert await book.sealer.seal() == 3

    go(history())
    return book


def test_a_round_seals_what_is_new_and_nothing_else(go, book):
    chain = SealChain(book.client, MASTER_KEY)
    first, second, third = [go(chain.seal(n)) for n in (1, 2, 3)]
    assert [(s.tenant, s.first, s.last) for s in first.segments] == [("acme", 1, 3), ("clinic", 1, 1)]
    assert [(s.tenant, s.first, s.last) for s in second.segments] == [("acme", 4, 5), ("clinic", 2, 4)]
    assert [(s.tenant, s.first, s.last) for s in third.segments] == [("acme", 6, 7)]
    assert third.previous == second.id
    assert go(book.sealer.seal()) is None
    go(book.release("clinic", "patient-2"))  # after the last seal: checked at the next start all the same
    go(book.fresh_sealer().check())
    assert go(book.faults()) == ""
    assert go(book.sealer.seal(always=True)) == 4
    assert go(book.sealer.seal(always=True)) == 5
    assert go(book.faults()) == ""


def test_a_hold_may_be_open_across_seals(go, book):
    hold = go(book.ledger.reserve("acme", [charge(1)]))
    go(book.sealer.seal())
    other = go(book.ledger.reserve("acme", [charge(2)]))
    go(book.ledger.cancel("acme", other.release_id, reason="queue-full"))
    go(book.ledger.expire("acme", hold.release_id, reason="overdue"))
    go(book.fresh_sealer().check())
    assert go(book.sealer.seal()) == 5
    assert go(book.faults()) == ""


def cheaper(entry_id, fields):
    if entry_id == b"4-0":
        fields[b"mechanism"] = b"another"
    return fields


def without(*ids):
    return lambda entry_id, fields: None if entry_id in ids else fields


def forged(entry_id, fields):
    if entry_id == b"3-0":
        fields[b"body"] = fields[b"body"].replace(b'"last"', b'"last"').replace(b'"n":3', b'"n":3 ')
    return fields


async def edit_entry(book):
    await book.rewrite("{acme}:journal", cheaper)


async def delete_entry(book):
    await book.admin.call("XDEL", "{acme}:journal", "4-0")


async def delete_journal_tail(book):
    await book.admin.call("XDEL", "{acme}:journal", "6-0", "7-0")


async def cut_journal_and_number(book):
    await delete_journal_tail(book)
    await book.admin.call("HSET", "{acme}:tenant", "seq", 5)


async def delete_unsealed_entry(book):
    await book.release()
    await book.admin.call("XDEL", "{acme}:journal", "9-0")


async def edit_own_account(book):
    account = "{acme}:account:token"
    pairs = await book.admin.call("HGETALL", account)
    fresh = await book.admin.call("HGETALL", "{acme}:account:record")
    changed = {name: fresh[name] for name in pairs if name.startswith((b"committed", b"held"))}
    await book.admin.call("HSET", account, *(part for pair in changed.items() for part in pair))


async def raise_an_unused_limit(book):
    """A limit and an entry that says so, for an account without a release."""
    account, seq = "{acme}:account:record", int(await book.admin.call("HGET", "{acme}:tenant", "seq")) + 1
    limit = list((await book.ledger.account("acme", "acme/record")).limit_vector)
    limit[1] *= 1000
    entry = {"transition": "limit", "release": "", "mechanism": "", "reason": "first-release", "at_ms": "1"}
    entry |= {"amounts": orjson.dumps([["record", "", limit]]).decode(), "key": "", "route": ""}
    fields = [part for pair in entry.items() for part in pair]
    await book.admin.call("XADD", "{acme}:journal", f"{seq}-0", *fields)
    await book.admin.call("HSET", "{acme}:tenant", "seq", seq)
    await book.admin.call("HSET", account, "limit", msgpack.packb(limit))


async def delete_own_account(book):
    await book.admin.call("DEL", "{acme}:account:record")


async def edit_subject_account(book):
    (subject, *_) = await book.admin.call("KEYS", "{clinic}:account:sentence:*")
    fresh = await book.admin.call("HGETALL", "{clinic}:account:record")
    changed = {name: value for name, value in fresh.items() if name.startswith((b"committed", b"held"))}
    await book.admin.call("HSET", subject, *(part for pair in changed.items() for part in pair))


async def delete_subject_account(book):
    (subject, *_) = await book.admin.call("KEYS", "{clinic}:account:sentence:*")
    await book.admin.call("ZREM", "{clinic}:accounts", subject.partition(b"account:")[2])


async def roll_back_tenant(book):
    await book.restore("acme", "{acme}:*")


async def roll_back_and_repeat(book):
    """The accounts come out as they were sealed, and one release is not counted."""
    await roll_back_tenant(book)
    await book.release()


async def roll_back_tenant_and_heads(book):
    await roll_back_tenant(book)
    await book.admin.call("HSET", "{seals}:heads", "acme", "5 2")


async def roll_back_tenant_and_chain(book):
    await roll_back_tenant(book)
    await book.restore("seals", "{seals}:*")


async def roll_back_all(book):
    await book.restore("everything")


async def delete_last_seal(book):
    await book.admin.call("XDEL", "{seals}:chain", "3-0")


async def delete_middle_seal(book):
    await book.admin.call("XDEL", "{seals}:chain", "1-0")


async def delete_first_seals(book):
    await book.admin.call("XTRIM", "{seals}:chain", "MAXLEN", 1)


async def delete_chain(book):
    await book.admin.call("DEL", "{seals}:chain")


async def delete_all_seals(book):
    await book.admin.call("DEL", "{seals}:chain", "{seals}:heads", "{seals}:ledger")


async def forge_seal(book):
    await book.rewrite("{seals}:chain", forged)


async def unreadable_seal(book):
    await book.admin.call("XADD", "{seals}:chain", "9-0", "body", b"\xff", "mac", "x")


async def unlist_tenant(book):
    await book.admin.call("SREM", "tenants", "acme")


async def list_a_name_that_cannot_be(book):
    await book.admin.call("SADD", "tenants", "No Tenant")


async def delete_tenant(book):
    for key in await book.admin.call("KEYS", "{acme}:*"):
        await book.admin.call("DEL", key)


async def delete_everything(book):
    await book.admin.call("FLUSHALL")


# what is done, what the next start says (None: it starts), what the audit says
TAMPERING = [
    (edit_entry, None, "entries 4 to 5 are not the ones that seal 2 sealed"),
    (delete_entry, None, "acme: gap 4"),
    (delete_journal_tail, "Entry 7 of the tenant acme is not the one", "acme: gap 6"),
    (cut_journal_and_number, "acme is at entry 5 and was sealed up to 7", "was sealed up to entry 7"),
    (delete_unsealed_entry, "tenant acme since seal 3", "acme: gap 9"),
    (raise_an_unused_limit, "does not explain", "gives an account a limit that it was not opened with"),
    (edit_own_account, "tenant acme since seal 3", "acme/token: committed"),
    (delete_own_account, "acme/record is missing", "acme/record is missing"),
    (edit_subject_account, None, "clinic/sentence/"),
    (delete_subject_account, None, "is in the journal but has no account"),
    (roll_back_tenant, "acme is at entry 5", "acme: the tenant is at entry 5"),
    (roll_back_and_repeat, "Entry 7 of the tenant acme is not the one", "entries 6 to 7 are not the ones that seal 3"),
    (roll_back_tenant_and_heads, "does not match the last seal", "does not match the last seal"),
    (roll_back_tenant_and_chain, "older state", "older state"),
    (roll_back_all, "older state", "older state"),
    (delete_last_seal, "older state", "older state"),
    (delete_middle_seal, None, "seal 2 does not follow seal 0"),
    (delete_first_seals, "Seal 2 of the ledger is missing", "seal 3 does not follow seal 0"),
    (delete_chain, "older state", "chain of seals is missing"),
    (delete_all_seals, "holds no ledger", "holds no ledger"),
    (forge_seal, "not genuine", "seal 3-0 is not genuine"),
    (unreadable_seal, "cannot be read", "seal 9-0 is not genuine"),
    (unlist_tenant, "acme was sealed and is no longer listed", "not in the list of tenants"),
    (list_a_name_that_cannot_be, "cannot be read", "a name that no tenant can have"),
    (delete_tenant, "record of the tenant acme|acme is at entry 0", "record of the tenant is missing"),
    (delete_everything, "holds no ledger", "holds no ledger"),
]


@pytest.mark.parametrize(("tamper", "at_start", "in_audit"), TAMPERING, ids=[row[0].__name__ for row in TAMPERING])
def test_each_kind_of_tampering_is_found_where_the_adr_says(go, book, tamper, at_start, in_audit):
    assert go(book.faults()) == ""
    go(tamper(book))
    assert in_audit in go(book.faults())
    if at_start is None:
        go(book.fresh_sealer().check())
    else:
        with pytest.raises(LedgerNotTrusted, match=at_start):
            go(book.fresh_sealer().check())


@pytest.mark.parametrize("tamper", [edit_own_account, roll_back_all, delete_everything, unlist_tenant])
def test_a_running_gateway_that_finds_tampering_answers_nothing_more(go, book, tamper, server):
    go(tamper(book))
    if tamper is edit_own_account:
        go(book.release())  # an idle tenant is looked at when it writes again, or at the next start
    with pytest.raises(LedgerNotTrusted):
        go(book.sealer.seal())
    for work in (book.ledger.ping_write, book.ledger.tenants, book.release):
        with pytest.raises(LedgerUnavailable) as refused:
            go(work())
        assert "acme" not in refused.value.detail, "every tenant reads this"
        assert "The gateway's log has the details" in refused.value.detail
    beside = LedgerClient(connect(url=server.url))  # a client without the check still reads the data
    assert go(Ledger(beside, MASTER_KEY).ping_write()) is None
    go(beside.close())


def test_seals_of_another_key_are_not_genuine(go, book):
    with pytest.raises(LedgerNotTrusted, match="genuine"):
        go(Sealer(book.client, MasterKey(bytes(32)), book.epoch_file).check())


def test_gateways_seal_in_turns_under_load(go, book, tmp_path):
    others = [Sealer(book.client, MASTER_KEY, tmp_path / f"{number}.epoch") for number in range(3)]

    async def work(tenant, subject):
        for _ in range(25):
            await book.release(tenant, subject)

    async def sealing(sealer):
        await sealer.check()
        numbers = [await sealer.seal() for _ in range(10)]
        return [number for number in numbers if number]

    async def scenario():
        await book.ledger.open_tenant("busy", limits=limits(1000))
        await book.ledger.open_tenant("crowd", limits=limits(1000), subject_limits=limits(1000))
        _, _, *written = await asyncio.gather(
            work("busy", None), work("crowd", "s"), *(sealing(sealer) for sealer in [*others, book.sealer])
        )
        return sorted(number for numbers in written for number in numbers)

    written = go(scenario())
    # two gateways that find the same at the same millisecond make the same seal; it is there once
    assert set(written) == set(range(4, 4 + len(set(written))))
    go(book.sealer.seal())
    assert go(book.faults()) == ""
    for sealer in others:
        go(sealer.seal())


def test_a_seal_whose_reply_is_lost_is_written_once(go, book, faulty):
    sealer = Sealer(faulty.client, MASTER_KEY, book.epoch_file)
    go(sealer.check())
    faulty.only, faulty.plan = b"body", [LOST_REPLY]
    assert go(sealer.seal(always=True)) == 4
    assert faulty.met == 1
    assert go(book.admin.call("XLEN", "{seals}:chain")) == 4
    assert go(book.faults()) == ""


def test_many_accounts_are_audited_in_pages_while_the_ledger_works(go, book, monkeypatch):
    monkeypatch.setattr(pages, "ACCOUNT_BATCH", 3)

    async def scenario():
        for number in range(20):
            await book.release("clinic", f"patient-{number % 10}")

        async def work():
            for number in range(40):
                await book.release("clinic", f"newcomer-{number}" if number < 20 else f"patient-{number % 10}")

        _, *found = await asyncio.gather(work(), book.faults(), book.faults(), book.faults())
        return found

    assert go(scenario()) == ["", "", ""]
    (subject, *_) = go(book.admin.call("KEYS", "{clinic}:account:token:*"))
    go(book.admin.call("DEL", subject))
    assert "is missing" in go(book.faults())


def test_a_first_release_after_a_seal_may_divide_delta_anew(go, book):
    go(book.ledger.open_tenant("fresh", limits=limits(10, 10**9)))
    go(book.sealer.seal())
    go(book.ledger.reserve("fresh", [charge(1, delta_femto=10**9)]))
    entries = go(book.ledger.journal("fresh", limit=100)).entries
    assert [entry.transition for entry in entries] == ["open", "limit", "reserve"]
    go(book.fresh_sealer().check())
    assert go(book.sealer.seal()) is not None
    assert go(book.faults()) == ""
