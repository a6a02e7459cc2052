"""A ledger has one blob store, and a blob store one ledger: a gateway with another one is refused."""

import asyncio
from pathlib import Path

import pytest

from core.blobs.local import LocalBlobs
from core.errors import LedgerUnavailable, StoreUnavailable
from core.redis import names
from core.redis.client import LedgerClient
from core.redis.identity import ID_KEY, OWNER_KEY, accept_store, check_store

OWN, OTHER = "1" * 32, "2" * 32


def store(tmp_path: Path, name: str) -> LocalBlobs:
    return LocalBlobs(tmp_path / name)


@pytest.fixture(autouse=True)
def _a_checked_ledger(go, client: LedgerClient) -> None:
    go(client.call("SET", names.LEDGER_ID_KEY, OWN))


def test_the_first_gateway_decides_and_another_store_is_refused(go, client: LedgerClient, tmp_path: Path) -> None:
    go(check_store(client, store(tmp_path, "one"), alone=False))
    go(check_store(client, store(tmp_path, "one"), alone=False))
    for name in ("two", "two"):
        with pytest.raises(LedgerUnavailable, match="PRIVACY_GATEWAY_STORE_URL"):
            go(check_store(client, store(tmp_path, name), alone=False))
        assert not (tmp_path / name / ID_KEY).exists(), "a refused gateway writes nothing"


def test_gateways_that_start_at_the_same_time_find_one_store(go, client: LedgerClient, tmp_path: Path) -> None:
    async def start(name: str) -> bool:
        try:
            await check_store(client, store(tmp_path, name), alone=False)
        except LedgerUnavailable:
            return False
        return True

    async def all_start(*folders: str) -> list[bool]:
        return await asyncio.gather(*map(start, folders))

    assert all(go(all_start(*["shared"] * 8)))
    go(client.call("SET", names.STORE_ID_KEY, "0" * 32))
    assert not any(go(all_start("shared", "shared")))


def test_an_operator_moves_a_ledger_to_another_store(go, client: LedgerClient, tmp_path: Path) -> None:
    go(check_store(client, store(tmp_path, "one"), alone=False))
    (tmp_path / "copied/identity").mkdir(parents=True)
    for key in (ID_KEY, OWNER_KEY):
        (tmp_path / "copied" / key).write_bytes((tmp_path / "one" / key).read_bytes())
    go(check_store(client, store(tmp_path, "copied"), alone=False))
    go(accept_store(client, store(tmp_path, "two")))
    go(check_store(client, store(tmp_path, "two"), alone=False))
    with pytest.raises(LedgerUnavailable):
        go(check_store(client, store(tmp_path, "one"), alone=False))
    go(check_store(client, store(tmp_path, "three"), alone=True))  # an embedded Redis has one gateway
    go(check_store(client, store(tmp_path, "three"), alone=False))


def test_an_id_that_cannot_be_read_is_no_id(go, client: LedgerClient, tmp_path: Path) -> None:
    go(store(tmp_path, "one").put(ID_KEY, b"something else"))
    with pytest.raises(StoreUnavailable):
        go(check_store(client, store(tmp_path, "one"), alone=False))


def become(go, client: LedgerClient, ledger: str) -> None:
    """The Redis is that of another ledger, which was never used with a store."""
    go(client.call("SET", names.LEDGER_ID_KEY, ledger))
    go(client.call("SET", names.STORE_ID_KEY, "", "PX", 1))
    while go(client.call("EXISTS", names.STORE_ID_KEY)):
        pass


@pytest.mark.parametrize("alone", [False, True])
def test_a_store_of_another_ledger_is_refused(go, client: LedgerClient, tmp_path: Path, alone: bool) -> None:
    shared = store(tmp_path, "shared")
    go(check_store(client, shared, alone=alone))
    become(go, client, OTHER)
    for use in (check_store(client, shared, alone=alone), accept_store(client, shared)):
        with pytest.raises(LedgerUnavailable, match="belongs to another ledger"):
            go(use)
        assert not go(client.call("EXISTS", names.STORE_ID_KEY)), "it can still choose its own"
    go(check_store(client, store(tmp_path, "own"), alone=alone))
    become(go, client, OWN)  # the Redis was lost, and the ledger was restored from its archive
    go(check_store(client, shared, alone=alone))


def test_of_two_new_ledgers_that_start_at_once_one_gets_the_store(
    go, client: LedgerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = store(tmp_path, "shared")
    put = shared.put

    async def put_after_the_other(key: str, data: bytes, *, create_only: bool = False) -> None:
        if key == OWNER_KEY:
            await put(key, OTHER.encode(), create_only=True)
        await put(key, data, create_only=create_only)

    monkeypatch.setattr(shared, "put", put_after_the_other)
    with pytest.raises(LedgerUnavailable, match="belongs to another ledger"):
        go(check_store(client, shared, alone=False))
    assert not go(client.call("EXISTS", names.STORE_ID_KEY))
