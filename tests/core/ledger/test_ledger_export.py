"""The export: what an auditor with the journal key can recompute from the lines alone, as the reference says."""

import hashlib
import hmac
import json

import pytest
from ledger_kit import MASTER_KEY, charge, limits

from core.errors import InvalidInput, UnknownTenant
from core.ledger.hash_chain.export import export_ledger
from core.ledger.hash_chain.sealer import Sealer
from core.master_key import Purpose


@pytest.fixture
def lines(go, ledger, client, tmp_path):
    """Exports a ledger of two tenants with two seals and an unsealed tail."""
    sealer = Sealer(client, MASTER_KEY, tmp_path / "ledger.epoch")

    async def history():
        await sealer.check()
        await ledger.open_tenant("acme", limits=limits(1.5, 10, basic_delta_femto=10))
        await ledger.open_tenant("clinic", limits=limits(10), subject_limits=limits(2))
        await ledger.reserve("acme", [charge(0.1, delta_femto=1)])
        await sealer.seal()
        await ledger.reserve("clinic", [charge(1, subject="patient-1")])
        hold = await ledger.reserve("acme", [charge(1)])
        await sealer.seal()
        await ledger.commit("acme", hold.release_id)

    async def export(tenant=None):
        found = export_ledger(client, MASTER_KEY, tmp_path / "ledger.epoch", tenant=tenant)
        return [json.loads(json.dumps(line)) async for line in found]

    go(history())
    return lambda tenant=None: go(export(tenant))


def netstring(text: str) -> bytes:
    return b"%d:%b," % (len(text.encode()), text.encode())


def digest(entries) -> str:
    sha256 = hashlib.sha256()
    for entry in entries:
        stored = entry["stored"]
        parts = [stored["id"], *(part for pair in stored["fields"].items() for part in pair)]
        sha256.update(b"%d;" % len(parts) + b"".join(netstring(part) for part in parts))
    return sha256.hexdigest()


def test_an_auditor_recomputes_every_seal_from_the_lines(lines):
    found = lines()
    assert [line["type"] for line in found[-2:]] == ["entry", "summary"]
    entries = [line for line in found if line["type"] == "entry"]
    seals = [line for line in found if line["type"] == "seal"]
    assert found[-1] == {"type": "summary", "entries": len(entries), "seals": 2, "ok": True, "faults": []}
    key = MASTER_KEY.derive(Purpose.JOURNAL)
    previous = {"n": 0, "mac": ""}
    for seal in seals:
        text = seal["body"].encode()
        mac = hmac.new(key, len(text).to_bytes(8, "big") + text, hashlib.sha256).hexdigest()
        assert mac == seal["mac"]
        body = json.loads(text)
        assert body["previous"] == previous
        previous = {"n": seal["n"], "mac": mac}
        for tenant, first, last, sha256, end, _ in body["tenants"]:
            covered = [entry for entry in entries if entry["tenant"] == tenant and first <= entry["seq"] <= last]
            assert (digest(covered), digest(covered[-1:])) == (sha256, end)
            # a seal comes after what it covers, as a stream can be checked
            assert all(found.index(entry) < found.index(seal) for entry in covered)


def test_amounts_are_exact_decimals(lines):
    acme = [line for line in lines("acme") if line["type"] == "entry"]
    (sentence,) = [a for a in acme[1]["amounts"] if a["account"] == "acme/sentence"]
    assert (sentence["unit"], sentence["epsilon"], sentence["delta"]) == ("sentence", "0.1", "0.000000000000001")
    assert sentence["vector"][:3] == [1, 100_000_000, 1]
    assert {a["epsilon"] for a in acme[0]["amounts"]} == {"1.5"}
    assert acme[-1]["stored"]["fields"]["transition"] == "commit"


def test_one_tenants_export_tells_nothing_of_another(lines):
    found = lines("clinic")
    assert "acme" not in json.dumps(found)
    assert found[-1]["ok"] is True
    assert [line["n"] for line in found if line["type"] == "seal"] == [1, 2]
    assert all(segment["matches"] for line in found if line["type"] == "seal" for segment in line["segments"])
    with pytest.raises(UnknownTenant):
        lines("nobody")
    with pytest.raises(InvalidInput):
        lines("{acme}")


def test_a_changed_journal_is_exported_and_said_to_be_changed(go, lines, admin):
    entry = go(admin.call("XRANGE", "{acme}:journal", "2-0", "2-0"))
    go(admin.call("XDEL", "{acme}:journal", "2-0"))
    found = lines()
    assert found[-1]["ok"] is False
    assert "acme: entries 1 to 2 are not the ones that seal 1 sealed" in found[-1]["faults"]
    assert "acme: found entry 3 in place of entry 2" in found[-1]["faults"]
    (seal, *_) = [line for line in found if line["type"] == "seal"]
    assert [segment["matches"] for segment in seal["segments"]] == [False, True]
    # back as it was, for the audit after the test
    rest = go(admin.call("XRANGE", "{acme}:journal", "-", "+"))
    go(admin.call("DEL", "{acme}:journal"))
    for entry_id, fields in [rest[0], *entry, *rest[1:]]:
        go(admin.call("XADD", "{acme}:journal", entry_id, *(part for pair in fields.items() for part in pair)))
    assert lines()[-1]["ok"] is True
