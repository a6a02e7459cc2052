"""The vault on real servers and with the ledger's own rights."""

import pytest
from ledger_kit import MASTER_KEY, Clock

from core.errors import InvalidInput, TenantLimitReached
from core.master_key import MasterKey
from core.state.vault import OVERHEAD_BYTES, Vault, VaultCount

NOW_S = 4_000_000_000.0  # after the clock of Redis, which therefore removes nothing by itself
CONTENT = b"Anna Kowalska is Eva Braun"


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW_S)


@pytest.fixture
def make(client, clock):
    def vault(*, entries_max: int = 100, bytes_max: int = 1_000_000, key: MasterKey = MASTER_KEY, **given) -> Vault:
        return Vault(client, key, entries_max=entries_max, bytes_max=bytes_max, **{"clock": clock} | given)

    return vault


def test_an_entry_is_found_by_its_tenant_and_name_alone(go, make):
    vault = make()
    go(vault.put("acme", "r1", CONTENT, lifetime_s=60))
    assert go(vault.get("acme", "r1")) == CONTENT
    assert go(vault.get("acme", "r2")) is None
    assert go(vault.get("other", "r1")) is None
    assert go(make(key=MasterKey(b"x" * 32)).get("acme", "r1")) is None
    assert not go(vault.put("acme", "r1", b"later", lifetime_s=60, only_new=True))
    assert go(vault.get("acme", "r1")) == CONTENT
    assert go(vault.put("acme", "r1", b"later", lifetime_s=60))
    assert go(vault.get("acme", "r1")) == b"later"
    assert go(vault.count("acme")).entries == 1


def test_redis_holds_no_content_and_no_name(go, make, admin):
    go(make().put("acme", "resp_abc", CONTENT, lifetime_s=60))
    for key in go(admin.call("KEYS", "*")):
        kind = go(admin.call("TYPE", key))
        stored = go(admin.call("GET", key) if kind == b"string" else admin.call("ZRANGE", key, 0, -1))
        assert not any(part in repr((key, stored)) for part in ("Anna", "Eva", "resp_abc"))
        assert key.startswith(b"{acme}:vault")


def test_a_ciphertext_that_is_altered_or_moved_is_not_opened(go, make, admin):
    vault = make()
    for tenant, name in (("acme", "r1"), ("acme", "r2"), ("other", "r1")):
        go(vault.put(tenant, name, CONTENT, lifetime_s=60))
    keys = {
        (tenant, name): f"{{{tenant}}}:vault:entry:{vault.entry_id(tenant, name)}"
        for tenant, name in (("acme", "r1"), ("acme", "r2"), ("other", "r1"))
    }
    stored = go(admin.call("GET", keys["acme", "r1"]))
    for place in (("acme", "r2"), ("other", "r1")):  # of another response, of another tenant
        go(admin.call("SET", keys[place], stored))
        assert go(vault.get(*place)) is None
    later = b"%013d" % (int(stored[:13]) + 1)  # a longer life
    for other in (stored[:-1] + bytes([stored[-1] ^ 1]), later + stored[13:], stored[:20], b"", b"x" * 60):
        go(admin.call("SET", keys["acme", "r1"], other))
        assert go(vault.get("acme", "r1")) is None


def test_an_entry_ends_with_its_lifetime(go, make, clock, admin):
    vault = make()
    go(vault.put("acme", "r1", CONTENT, lifetime_s=60))
    clock.now += 59
    assert go(vault.get("acme", "r1")) == CONTENT
    clock.now += 1
    assert go(vault.get("acme", "r1")) is None  # though this copy is still in Redis
    clock.now = go(admin.call("TIME"))[0] - 100
    go(vault.put("acme", "r2", CONTENT, lifetime_s=100 + 3600))
    go(vault.put("acme", "past", CONTENT, lifetime_s=1))
    found = go(vault.count("acme"))
    assert found.entries == 2  # what has ended by the clock of Redis is not counted
    assert go(admin.call("EXISTS", f"{{acme}}:vault:entry:{vault.entry_id('acme', 'past')}")) == 0


def test_entries_are_counted_paged_and_deleted(go, make):
    vault = make()
    assert go(vault.count("acme")).entries == 0
    for number in range(5):
        go(vault.put("acme", f"r{number}", b"x" * number, lifetime_s=100 - number))
    found = go(vault.count("acme"))
    assert (found.entries, found.size_bytes) == (5, 10 + 5 * OVERHEAD_BYTES)
    assert (found.first_expires_ms, found.last_expires_ms) == (int(NOW_S + 96) * 1000, int(NOW_S + 100) * 1000)
    first = go(vault.page("acme", cursor=None, limit=3))
    rest = go(vault.page("acme", cursor=first[-1].cursor, limit=3))
    assert [e.entry_id for e in first + rest] == [vault.entry_id("acme", f"r{number}") for number in (4, 3, 2, 1, 0)]
    assert go(vault.delete("acme", first[0].entry_id))
    assert not go(vault.delete("acme", first[0].entry_id))
    assert not go(vault.delete("other", rest[0].entry_id))
    for wrong in ("r1", "*", "", "A" * 64):
        assert not go(vault.delete("acme", wrong))
    assert go(vault.get("acme", "r4")) is None
    assert go(vault.count("acme")).size_bytes == 6 + 4 * OVERHEAD_BYTES
    with pytest.raises(InvalidInput):
        go(vault.page("acme", cursor="[", limit=1))


def test_a_full_vault_refuses_and_keeps_what_it_has(go, make):
    vault = make(entries_max=2, bytes_max=2 * OVERHEAD_BYTES + 100)
    go(vault.put("acme", "r1", b"x" * 50, lifetime_s=60))
    go(vault.check_space("acme", 50))
    for size in (51, 10_000):
        with pytest.raises(TenantLimitReached) as full:
            go(vault.put("acme", "r2", b"x" * size, lifetime_s=60))
        assert full.value.limit == "vault_bytes_max"
        with pytest.raises(TenantLimitReached):
            go(vault.check_space("acme", size))
    go(vault.put("acme", "r2", b"x" * 50, lifetime_s=60))
    go(vault.put("acme", "r2", b"x" * 40, lifetime_s=60))  # in its own place
    for refused in (vault.put("acme", "r3", b"", lifetime_s=60), vault.check_space("acme", 0)):
        with pytest.raises(TenantLimitReached) as full:
            go(refused)
        assert full.value.limit == "vault_entries_max"
    go(vault.put("other", "r3", b"", lifetime_s=60))  # another tenant's is not full
    assert go(vault.get("acme", "r1")) == b"x" * 50
    go(vault.clear("acme"))
    go(vault.put("acme", "r3", b"x" * 100, lifetime_s=60))
    assert go(vault.count("other")).entries == 1


def test_more_entries_than_a_call_removes_are_cleared_or_expire(go, make, admin):
    vault = make(entries_max=10_000)
    for number in range(1_100):
        go(vault.put("acme", f"r{number}", b"", lifetime_s=3600))
    assert go(vault.count("acme")).entries == 1_100
    go(vault.clear("acme"))
    assert go(vault.count("acme")) == VaultCount(0, 0, None, None)
    assert go(admin.call("KEYS", "*vault:entry*")) == []
    past = [member for number in range(2_100) for member in (0, f"{1_000_000_000_000 + number}-{number:064x}-50")]
    go(admin.call("ZADD", "{acme}:vault", *past))
    go(admin.call("SET", "{acme}:vault:bytes", 2_100 * 50))
    assert go(vault.count("acme")) == VaultCount(0, 0, None, None)
