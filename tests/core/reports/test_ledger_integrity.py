"""What is sealed, open and audited, and that a forged seal or audit is not shown as genuine."""

import pytest
from ledger_kit import MASTER_KEY, charge, limits

from core.errors import LedgerNotTrusted, UnknownTenant
from core.ledger.hash_chain.audit import audit_ledger, last_audit, store_audit
from core.ledger.hash_chain.sealer import Sealer
from core.redis import names
from core.reports.integrity import IntegrityReads


@pytest.fixture
def sealer(go, ledger, client, tmp_path):
    go(ledger.open_tenant("acme", limits=limits(10)))
    sealer = Sealer(client, MASTER_KEY, tmp_path / "epoch")
    go(sealer.check())
    return sealer


def test_what_is_sealed_and_open(go, ledger, client, sealer) -> None:
    integrity = IntegrityReads(client, MASTER_KEY)
    before = go(integrity.tenant("acme"))
    assert (before.entries, before.sealed, before.seal, before.open_holds, before.overdue_ms) == (1, 0, 0, 0, None)
    assert go(integrity.ledger()).last_seal is None
    number = go(sealer.seal())
    hold = go(ledger.reserve("acme", [charge(1)], hold_ttl_ms=60_000))
    found = go(integrity.tenant("acme"))
    assert (found.entries, found.sealed, found.seal, found.open_holds) == (2, 1, number, 1)
    assert found.overdue_ms > go(integrity.ledger()).at_ms
    assert go(integrity.ledger()).last_seal.id.n == number
    go(ledger.cancel("acme", hold.release_id, reason="test"))
    with pytest.raises(UnknownTenant):
        go(integrity.tenant("nobody"))


def test_a_forged_head_is_refused(go, client, sealer) -> None:
    go(sealer.seal())
    go(client.call("HSET", names.SEAL_HEADS_KEY, "acme", "7 1"))
    with pytest.raises(LedgerNotTrusted):
        go(IntegrityReads(client, MASTER_KEY).tenant("acme"))


def test_the_last_audit_is_stored_under_a_mac(go, client, sealer, tmp_path) -> None:
    assert go(last_audit(client, MASTER_KEY)) is None
    go(sealer.seal())
    report = go(audit_ledger(client, MASTER_KEY, tmp_path / "epoch"))
    go(store_audit(client, MASTER_KEY, report))
    found = go(last_audit(client, MASTER_KEY))
    assert (found.ok, found.seals, found.entries, found.tenants) == (True, 1, 1, 1)
    assert found.ok_for("acme")
    stored = go(client.call("GET", names.LAST_AUDIT_KEY))
    go(client.call("SET", names.LAST_AUDIT_KEY, stored.replace(b'"seals":1', b'"seals":2')))
    assert go(last_audit(client, MASTER_KEY)) is None


def test_a_fault_of_one_tenant_is_not_one_of_another(go, ledger, client, sealer, admin, tmp_path) -> None:
    go(ledger.open_tenant("other", limits=limits(10)))
    go(sealer.seal())
    account = names.account_key("other", "sentence")
    held = go(client.call("HGET", account, "held"))
    go(client.call("HSET", account, "held", held.replace(b"\x00", b"\x01", 1)))
    go(store_audit(client, MASTER_KEY, go(audit_ledger(client, MASTER_KEY, tmp_path / "epoch"))))
    found = go(last_audit(client, MASTER_KEY))
    assert (found.ok, found.chain_ok, found.faulty) == (False, True, ("other",))
    assert found.ok_for("acme")
    assert not found.ok_for("other")
    go(client.call("HSET", account, "held", held))
