"""Keys: nothing in Redis authenticates, decrypts or names anybody."""

import asyncio
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from ledger_kit import MASTER_KEY, Clock, charge, claim, limits

from core.errors import InvalidInput, LedgerUnavailable, TenantLimitReached, UnknownKey, UnknownTenant
from core.ledger.hash_chain.admin_log import LogCheck
from core.master_key import MasterKey, Purpose
from core.redis import names
from core.state.keystore import KeyRole, KeyStore


@pytest.fixture
def store(acme, client):
    return KeyStore(client, MASTER_KEY)


def new_key(go, store, **terms) -> str:
    return go(store.create("acme", by="cli", **terms)).key


def everything(go, admin) -> bytes:
    """All keys and values of the server, as it would write them to disk."""
    names = go(admin.call("KEYS", "*"))
    return b"\n".join([name + b" " + go(admin.call("DUMP", name)) for name in names])


def test_a_key_authenticates_its_tenant_until_it_is_revoked(go, ledger, store):
    first, second = new_key(go, store), new_key(go, store)
    key_id = first.split("_")[1]
    found = go(store.authenticate(first))
    assert (found.tenant, found.key_id) == ("acme", key_id)
    revoked = go(store.revoke("acme", key_id, by="cli"))
    assert revoked.revoked_ms is not None
    assert go(store.revoke("acme", key_id, by="cli")) == revoked
    assert go(store.authenticate(first)) is None
    assert go(store.authenticate(second)).tenant == "acme"
    assert {key.key_id: key.revoked_ms is None for key in go(store.list("acme"))} == {
        key_id: False,
        second.split("_")[1]: True,
    }


def test_wrong_keys_authenticate_nobody(go, store):
    key = new_key(go, store)
    flipped = key[:-1] + ("0" if key[-1] != "0" else "1")
    wrong = [flipped, key.upper(), key + "\n", key[:-1], "", "pgw_", f"pgw_{'0' * 16}_{'0' * 32}", "é" * 53]
    assert [go(store.authenticate(each)) for each in wrong] == [None] * len(wrong)
    assert go(KeyStore(store._client, MasterKey(bytes(32))).authenticate(key)) is None


@pytest.fixture
def clock() -> Clock:
    return Clock(1_700_000_000.0)


@pytest.fixture
def timed(acme, client, clock):
    return KeyStore(client, MASTER_KEY, clock=clock, keys_max=3)


def test_a_key_has_its_roles_and_label_and_ends_when_it_expires(go, timed, clock):
    key = new_key(go, timed, roles=[KeyRole.READ], expires_s=60, label="the dashboard")
    found = go(timed.authenticate(key))
    assert (found.roles, found.label) == ({KeyRole.READ}, "the dashboard")
    assert found.expires_ms == found.created_ms + 60_000
    clock.now += 59
    assert go(timed.is_valid("acme", found.key_id))
    clock.now += 1
    assert go(timed.authenticate(key)) is None
    assert not go(timed.is_valid("acme", found.key_id))
    assert [each.label for each in go(timed.list("acme"))] == ["the dashboard"], "an ended key is still listed"


def test_both_keys_of_a_rotation_work_until_the_overlap_has_passed(go, timed, clock):
    old = new_key(go, timed, roles=[KeyRole.JOBS], expires_s=1000, label="nightly")
    clock.now += 100
    new = go(timed.rotate("acme", old.split("_")[1], by="operator", overlap_s=60))
    assert (new.facts.roles, new.facts.label) == ({KeyRole.JOBS}, "nightly")
    assert new.facts.expires_ms == new.facts.created_ms + 1_000_000, "it lives as long as the first was meant to"
    assert go(timed.authenticate(old))
    assert go(timed.authenticate(new.key))
    again = go(timed.rotate("acme", old.split("_")[1], by="operator", overlap_s=3600))
    clock.now += 60
    assert go(timed.authenticate(old)) is None, "a second rotation does not prolong the first key"
    assert go(timed.authenticate(new.key))
    assert go(timed.authenticate(again.key))
    with pytest.raises(InvalidInput, match="ended"):
        go(timed.rotate("acme", old.split("_")[1], by="operator", overlap_s=0))


def test_a_writer_of_redis_cannot_extend_a_key(go, ledger, timed, clock, client):
    go(ledger.open_tenant("other", limits=limits(5)))
    key = new_key(go, timed, roles=[KeyRole.READ], expires_s=10)
    record = names.api_key_key(key.split("_")[1])
    terms = go(client.call("HGET", record, "terms"))
    for name, value in (
        ("terms", terms.replace(b"read", b"admin")), ("terms", terms.replace(b'"expires_ms":1', b'"expires_ms":2')),
        ("terms", terms.replace(b"acme", b"other")), ("terms", b""), ("tenant", b"other"),
    ):  # fmt: skip
        before = go(client.call("HGET", record, name))
        assert value != before
        go(client.call("HSET", record, name, value))
        assert go(timed.authenticate(key)) is None
        go(client.call("HSET", record, name, before))
    assert go(timed.authenticate(key)).tenant == "acme"


def test_the_keys_of_a_tenant_are_limited_and_old_records_do_not_count(go, timed, client):
    keys = [new_key(go, timed) for _ in range(3)]
    with pytest.raises(TenantLimitReached) as refused:
        new_key(go, timed)
    assert refused.value.limit == "keys_per_tenant_max"
    ended = keys[0].split("_")[1]
    go(timed.revoke("acme", ended, by="cli"))
    with pytest.raises(TenantLimitReached):
        new_key(go, timed)
    go(client.call("PEXPIRE", names.api_key_key(ended), 0))  # what Redis does once the record is old
    new_key(go, timed)
    assert ended not in {key.key_id for key in go(timed.list("acme"))}
    with pytest.raises(UnknownKey):
        go(timed.revoke("acme", ended, by="cli"))


@pytest.mark.parametrize(
    "terms", [{"roles": []}, {"expires_s": 0}, {"expires_s": 1e12}, {"label": "x" * 65}, {"label": "a\nb"}]
)
def test_invalid_terms_make_no_key(go, timed, terms):
    with pytest.raises(InvalidInput):
        new_key(go, timed, **terms)
    assert go(timed.list("acme")) == ()


async def log_of(store) -> tuple[list, list[str]]:
    check, entries = LogCheck(), []
    async for entry in store.log.entries():
        check.add(entry)
        entries.append(entry)
    check.end()
    return entries, check.faults


def test_every_change_of_a_key_is_in_the_log_and_no_secret_is(go, timed):
    key = new_key(go, timed, label="nightly")
    key_id = key.split("_")[1]
    new = go(timed.rotate("acme", key_id, by="key:0123456789abcdef", overlap_s=60))
    go(timed.revoke("acme", key_id, by="operator"))
    go(timed.revoke("acme", key_id, by="operator"))
    entries, faults = go(log_of(timed))
    assert [(each.n, each.by, each.action, each.target) for each in entries] == [
        (1, "cli", "key.create", f"acme/{key_id}"),
        (2, "key:0123456789abcdef", "key.rotate", f"acme/{new.facts.key_id}"),
        (3, "operator", "key.revoke", f"acme/{key_id}"),
    ]
    assert entries[1].details["replaces"] == key_id
    assert faults == []
    for secret in (key, new.key):
        assert not any(secret.split("_")[2] in each.body for each in entries)


def test_concurrent_actions_make_one_chain(go, timed):
    async def both() -> None:
        await asyncio.gather(*(timed.create("acme", by="cli") for _ in range(3)))

    go(both())
    entries, faults = go(log_of(timed))
    assert [each.n for each in entries] == [1, 2, 3]
    assert faults == []


def test_a_changed_or_missing_entry_is_found(go, timed, client, admin):
    for _ in range(3):
        new_key(go, timed)
    entry = go(admin.call("XRANGE", names.ADMIN_LOG_KEY, "2-0", "2-0"))[0]
    go(admin.call("XDEL", names.ADMIN_LOG_KEY, "2-0"))
    _, faults = go(log_of(timed))
    assert faults == ["entry 3 does not follow the entry before it"]
    assert entry[1][b"body"]
    go(admin.call("XADD", names.ADMIN_LOG_KEY, "4-0", "body", b"{}", "mac", "0" * 64))
    _, faults = go(log_of(timed))
    assert "entry 4 was not written by the gateway" in faults


def test_keys_of_others_cannot_be_revoked(go, ledger, store):
    go(ledger.open_tenant("other", limits=limits(5)))
    key_id = new_key(go, store).split("_")[1]
    for tenant, wrong in (("other", key_id), ("acme", "f" * 16), ("acme", "not hex")):
        with pytest.raises(UnknownKey):
            go(store.revoke(tenant, wrong, by="cli"))
    with pytest.raises(UnknownTenant):
        go(store.create("nobody", by="cli"))
    assert go(store.list("other")) == ()


def test_only_macs_and_ciphertext_are_at_rest(go, ledger, store, admin):
    key = new_key(go, store)
    go(ledger.open_tenant("clinic", limits=limits(50), subject_limits=limits(5)))
    hold = go(
        ledger.reserve(
            "clinic",
            [charge(1, subject="subject-of-care")],
            claim=claim("the-client-key", b"the-request-body", tenant="clinic"),
        )
    )
    go(ledger.commit("clinic", hold.release_id, response=b"the-private-answer"))
    stored = everything(go, admin)
    for secret in (key.split("_")[2], "subject-of-care", "the-client-key", "the-request-body", "the-private-answer"):
        assert secret.encode() not in stored


def test_a_stored_response_is_bound_to_its_release(go):
    sealed = MASTER_KEY.encrypt(b"bytes", tenant="acme", release_id="1")
    assert MASTER_KEY.decrypt(sealed, tenant="acme", release_id="1") == b"bytes"
    assert MASTER_KEY.encrypt(b"bytes", tenant="acme", release_id="1") != sealed
    for wrong in ({"tenant": "acme", "release_id": "2"}, {"tenant": "other", "release_id": "1"}):
        with pytest.raises(LedgerUnavailable):
            MASTER_KEY.decrypt(sealed, **wrong)
    with pytest.raises(LedgerUnavailable):
        MASTER_KEY.decrypt(b"short", tenant="acme", release_id="1")


def test_purposes_and_lists_of_parts_do_not_collide():
    assert len({MASTER_KEY.derive(purpose) for purpose in Purpose}) == len(Purpose)
    assert MASTER_KEY.mac(Purpose.SUBJECT, b"a", b"bc") != MASTER_KEY.mac(Purpose.SUBJECT, b"ab", b"c")
    assert MASTER_KEY.subject_hash("acme", "p") != MASTER_KEY.subject_hash("other", "p")
    assert "00010203" not in repr(MASTER_KEY)


def test_the_master_key_is_made_once_and_private(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: MasterKey.load_or_create(tmp_path), range(8)))
    assert len({key.derive(Purpose.CHECK) for key in made}) == 1
    path = tmp_path / "master.key"
    assert [each.name for each in tmp_path.iterdir()] == ["master.key"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert MasterKey.from_hex(path.read_bytes().hex()).derive(Purpose.CHECK) == made[0].derive(Purpose.CHECK)
    path.chmod(0o640)
    with pytest.raises(ValueError, match="owner"):
        MasterKey.load_or_create(tmp_path)
    path.chmod(0o600)
    path.write_bytes(b"short")
    for bad in (lambda: MasterKey.load_or_create(tmp_path), lambda: MasterKey.from_hex("zz")):
        with pytest.raises(ValueError, match="master key"):
            bad()


def test_a_bodys_tag_depends_on_every_byte_and_on_where_it_was_sent():
    body = bytes(range(256)) * 64

    def tag(content: bytes, tenant: str = "acme", route: str = "/a", step: int = 1000) -> bytes:
        reader = MASTER_KEY.body_tag(tenant=tenant, route=route)
        for start in range(0, len(content), step):
            reader.update(content[start : start + step])
        return reader.finalize()

    assert tag(body) == tag(body, step=7)
    others = [body[:-1] + b"\0", b"\1" + body[1:], body[:-1], body + b"\0"]
    tags = {tag(body), *map(tag, others), tag(body, tenant="other"), tag(body, route="/b")}
    assert len(tags) == 7
