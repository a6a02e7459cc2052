"""Seals: what was sealed cannot change unnoticed. docs/operating/ledger.md lists when each kind of change is found."""

import asyncio

import msgpack
import orjson
import pytest
from book_kit import Book
from ledger_kit import LOST_REPLY, MASTER_KEY, charge, limits, released

from core.errors import LedgerNotTrusted, LedgerUnavailable
from core.ledger import pages
from core.ledger.hash_chain.chain import SealChain
from core.ledger.hash_chain.sealer import Sealer
from core.ledger.reader import JournalFilter
from core.ledger.transitions import Ledger
from core.master_key import MasterKey
from core.redis.client import LedgerClient, connect


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


def test_what_a_request_states_is_in_each_entry_and_sealed(go, book):
    words = {"purpose": "search index", "recipient": "Team A"}
    for how in ("commit", "cancel", "expire"):
        released(go, book.ledger, [charge(1)], how=how, words=words)
        released(go, book.ledger, [charge(1, subject="patient-1")], how=how, tenant="clinic", words=words)
    go(book.ledger.reserve("acme", [charge(1)], words=words))
    go(book.sealer.seal())
    for tenant, count in (("acme", 7), ("clinic", 6)):
        entries = go(book.ledger.journal(tenant, wanted=JournalFilter(stated=True))).entries
        assert [(entry.purpose, entry.recipient) for entry in entries] == [tuple(words.values())] * count
    assert go(book.faults()) == ""

    def another(entry_id, fields):
        return fields | {b"recipient": b"Team B"} if entry_id == b"9-0" else fields

    go(book.rewrite("{acme}:journal", another))
    assert "acme: entries 8 to 14 are not the ones that seal 4 sealed" in go(book.faults())


async def edit_entry(book):
    def another(entry_id, fields):
        return fields | {b"mechanism": b"another"} if entry_id == b"4-0" else fields

    await book.rewrite("{acme}:journal", another)


async def write_off(book, account):
    """Give an account the counters of one that has spent nothing."""
    fresh = await book.admin.call("HGETALL", "{acme}:account:record")
    changed = {name: value for name, value in fresh.items() if name.startswith((b"committed", b"held"))}
    await book.admin.call("HSET", account, *(part for pair in changed.items() for part in pair))


async def edit_own_account(book):
    await write_off(book, "{acme}:account:token")


async def edit_subject_account(book):
    (subject, *_) = await book.admin.call("KEYS", "{clinic}:account:sentence:*")
    await write_off(book, subject)


async def delete_subject_account(book):
    (subject, *_) = await book.admin.call("KEYS", "{clinic}:account:sentence:*")
    await book.admin.call("ZREM", "{clinic}:accounts", subject.partition(b"account:")[2])


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


async def roll_back_acme(book):
    await book.restore("acme", "{acme}:*")


async def roll_back_seals(book):
    await book.restore("seals", "{seals}:*")


async def roll_back_all(book):
    await book.restore("everything")


async def forge_seal(book):
    def forged(entry_id, fields):
        return fields | {b"body": fields[b"body"].replace(b'"n":3', b'"n":3 ')} if entry_id == b"3-0" else fields

    await book.rewrite("{seals}:chain", forged)


async def delete_tenant(book):
    for key in await book.admin.call("KEYS", "{acme}:*"):
        await book.admin.call("DEL", key)


DELETE_TAIL = ("XDEL", "{acme}:journal", "6-0", "7-0")
UNLIST = ("SREM", "tenants", "acme")
FLUSH = ("FLUSHALL",)


async def tamper_with(book, steps):
    """Each step is a command of Redis or a function."""
    for step in steps:
        await (book.admin.call(*step) if isinstance(step, tuple) else step(book))


# what is done, what the next start says (None: it starts), what the audit says
TAMPERING = {
    "an edited entry": ([edit_entry], None, "entries 4 to 5 are not the ones that seal 2 sealed"),
    "a deleted entry": ([("XDEL", "{acme}:journal", "4-0")], None, "acme: gap 4"),
    "a cut journal": ([DELETE_TAIL], "Entry 7 of the tenant acme is not the one", "acme: gap 6"),
    "a cut journal and its number": (
        [DELETE_TAIL, ("HSET", "{acme}:tenant", "seq", 5)],
        "acme is at entry 5 and was sealed up to 7",
        "was sealed up to entry 7",
    ),
    "a deleted entry without a seal": (
        [Book.release, ("XDEL", "{acme}:journal", "9-0")],
        "tenant acme since seal 3",
        "acme: gap 9",
    ),
    "a raised limit": ([raise_an_unused_limit], "does not explain", "a limit that it was not opened with"),
    "an edited account": ([edit_own_account], "tenant acme since seal 3", "acme/token: committed"),
    "a deleted account": ([("DEL", "{acme}:account:record")], "acme/record is missing", "acme/record is missing"),
    "an edited account of a subject": ([edit_subject_account], None, "clinic/sentence/"),
    "a deleted account of a subject": ([delete_subject_account], None, "is in the journal but has no account"),
    "an older tenant": ([roll_back_acme], "acme is at entry 5", "acme: the tenant is at entry 5"),
    "an older tenant that released again": (  # the accounts are as they were sealed, and one release is not counted
        [roll_back_acme, Book.release],
        "Entry 7 of the tenant acme is not the one",
        "entries 6 to 7 are not the ones that seal 3",
    ),
    "an older tenant and its head": (
        [roll_back_acme, ("HSET", "{seals}:heads", "acme", "5 2")],
        "does not match the last seal",
        "does not match the last seal",
    ),
    "an older tenant and chain": ([roll_back_acme, roll_back_seals], "older state", "older state"),
    "an older ledger": ([roll_back_all], "older state", "older state"),
    "no last seal": ([("XDEL", "{seals}:chain", "3-0")], "older state", "older state"),
    "no middle seal": ([("XDEL", "{seals}:chain", "1-0")], None, "seal 2 does not follow seal 0"),
    "no first seals": (
        [("XTRIM", "{seals}:chain", "MAXLEN", 1)],
        "Seal 2 of the ledger is missing",
        "seal 3 does not follow seal 0",
    ),
    "no chain": ([("DEL", "{seals}:chain")], "older state", "chain of seals is missing"),
    "no seals": ([("DEL", "{seals}:chain", "{seals}:heads", "{seals}:ledger")], "holds no ledger", "holds no ledger"),
    "a forged seal": ([forge_seal], "not genuine", "seal 3-0 is not genuine"),
    "an unreadable seal": (
        [("XADD", "{seals}:chain", "9-0", "body", b"\xff", "mac", "x")],
        "cannot be read",
        "seal 9-0 is not genuine",
    ),
    "a tenant that is not listed": ([UNLIST], "acme was sealed and is no longer listed", "not in the list of tenants"),
    "a name that no tenant has": (
        [("SADD", "tenants", "No Tenant")],
        "cannot be read",
        "a name that no tenant can have",
    ),
    "a deleted tenant": (
        [delete_tenant],
        "record of the tenant acme|acme is at entry 0",
        "record of the tenant is missing",
    ),
    "an empty Redis": ([FLUSH], "holds no ledger", "holds no ledger"),
}


@pytest.mark.parametrize(("steps", "at_start", "in_audit"), TAMPERING.values(), ids=TAMPERING)
def test_each_kind_of_tampering_is_found_where_the_adr_says(go, book, steps, at_start, in_audit):
    assert go(book.faults()) == ""
    go(tamper_with(book, steps))
    assert in_audit in go(book.faults())
    if at_start is None:
        go(book.fresh_sealer().check())
    else:
        with pytest.raises(LedgerNotTrusted, match=at_start):
            go(book.fresh_sealer().check())


# an idle tenant is looked at when it writes again, or at the next start
@pytest.mark.parametrize("steps", [[edit_own_account, Book.release], [roll_back_all], [FLUSH], [UNLIST]])
def test_a_running_gateway_that_finds_tampering_answers_nothing_more(go, book, steps, server):
    go(tamper_with(book, steps))
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
