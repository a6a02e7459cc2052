"""Keys: nothing in Redis authenticates, decrypts or names anybody."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from ledger_kit import MASTER_KEY, charge, claim, limits

from core.errors import LedgerUnavailable, UnknownKey, UnknownTenant
from core.ledger.keys import MasterKey, Purpose
from core.ledger.keystore import KeyStore


@pytest.fixture
def store(go, ledger, client):
    go(ledger.open_tenant("acme", limits=limits(5)))
    return KeyStore(client, MASTER_KEY)


def everything(go, admin) -> bytes:
    """All keys and values of the server, as it would write them to disk."""
    names = go(admin.call("KEYS", "*"))
    return b"\n".join([name + b" " + go(admin.call("DUMP", name)) for name in names])


def test_a_key_authenticates_its_tenant_until_it_is_revoked(go, ledger, store):
    first, second = go(store.create("acme")), go(store.create("acme"))
    key_id = first.split("_")[1]
    found = go(store.authenticate(first))
    assert (found.tenant, found.key_id) == ("acme", key_id)
    revoked = go(store.revoke("acme", key_id))
    assert revoked.revoked_ms is not None
    assert go(store.revoke("acme", key_id)) == revoked
    assert go(store.authenticate(first)) is None
    assert go(store.authenticate(second)).tenant == "acme"
    assert {key.key_id: key.revoked_ms is None for key in go(store.list("acme"))} == {
        key_id: False,
        second.split("_")[1]: True,
    }


def test_wrong_keys_authenticate_nobody(go, store):
    key = go(store.create("acme"))
    flipped = key[:-1] + ("0" if key[-1] != "0" else "1")
    wrong = [flipped, key.upper(), key + "\n", key[:-1], "", "pgw_", f"pgw_{'0' * 16}_{'0' * 32}", "é" * 53]
    assert [go(store.authenticate(each)) for each in wrong] == [None] * len(wrong)
    assert go(KeyStore(store._client, MasterKey(bytes(32))).authenticate(key)) is None


def test_keys_of_others_cannot_be_revoked(go, ledger, store):
    go(ledger.open_tenant("other", limits=limits(5)))
    key_id = go(store.create("acme")).split("_")[1]
    for tenant, wrong in (("other", key_id), ("acme", "f" * 16), ("acme", "not hex")):
        with pytest.raises(UnknownKey):
            go(store.revoke(tenant, wrong))
    with pytest.raises(UnknownTenant):
        go(store.create("nobody"))
    assert go(store.list("other")) == ()


def test_only_macs_and_ciphertext_are_at_rest(go, ledger, store, admin):
    key = go(store.create("acme"))
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
    assert "0001" not in repr(MASTER_KEY)


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
