"""Files of tenants in the store: found by every gateway, verified, counted."""

import secrets
import time
from pathlib import Path

import pytest
from inprocess_kit import Gateway

from core.blobs.local import LocalBlobs
from core.errors import BlobCorrupt, BlobMissing, StorageFull
from core.master_key import MasterKey
from core.redis.names import SHARED_OWNER
from core.state.stored_files import ARTIFACTS, DOMAINS, StoredFileIndex
from service.files.copies import LocalCopies
from service.files.orphans import Orphans
from service.files.stored import StoredFiles

PACK = ".safetensors"


@pytest.fixture
def owner() -> str:
    return f"t-{secrets.token_hex(6)}"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(b"planted walrus" * 1000)
    return path


def opened(gateway: Gateway, data_dir: Path, *, cache: int = 10**9, quota: int = 10**9, store: Path) -> StoredFiles:
    """The files as another gateway sees them: a data directory of its own, the same Redis, the same store."""
    client = gateway.service.parts[StoredFiles].index._client
    index = StoredFileIndex(client, bytes_max=quota)
    copies = LocalCopies(data_dir, bytes_max=cache, free_bytes_min=0)
    return StoredFiles(copies, LocalBlobs(store), index, gateway.service.parts[MasterKey])


@pytest.fixture
def pair(gateway: Gateway, tmp_path: Path) -> tuple[StoredFiles, StoredFiles]:
    first, second = (opened(gateway, tmp_path / name, store=tmp_path / "store") for name in ("first", "second"))
    return first, second


def test_a_file_is_found_by_another_gateway_and_is_encrypted_in_the_store(
    gateway: Gateway, pair: tuple[StoredFiles, StoredFiles], owner: str, source: Path, tmp_path: Path
) -> None:
    first, second = pair
    gateway.on_loop(first.put(owner, DOMAINS, "law", {PACK: source, ".md": source}))

    found = gateway.on_loop(second.find(owner, DOMAINS, "law"))
    assert Path(found.path).read_bytes() == source.read_bytes()
    assert Path(found.path).stat().st_mode & 0o777 == 0o600
    assert gateway.on_loop(second.find(owner, DOMAINS, "law", ".html")) is None
    assert gateway.on_loop(second.find("other", DOMAINS, "law")) is None
    blobs = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert len(blobs) == 2
    assert not any(b"walrus" in path.read_bytes() for path in blobs)
    used = gateway.on_loop(first.index.used(owner))
    assert used == sum(path.stat().st_size for path in blobs)

    assert gateway.on_loop(second.remove(owner, DOMAINS, "law"))
    assert not gateway.on_loop(first.remove(owner, DOMAINS, "law"))
    assert gateway.on_loop(first.find(owner, DOMAINS, "law")) is None
    assert gateway.on_loop(first.index.used(owner)) == 0
    assert not any(path.exists() for path in blobs)


def test_a_replaced_file_is_fetched_again_and_its_blobs_are_deleted(
    gateway: Gateway, pair: tuple[StoredFiles, StoredFiles], owner: str, source: Path, tmp_path: Path
) -> None:
    first, second = pair
    gateway.on_loop(first.put(owner, DOMAINS, "law", {PACK: source}))
    before = gateway.on_loop(second.find(owner, DOMAINS, "law"))
    source.write_bytes(b"another")
    gateway.on_loop(first.put(owner, DOMAINS, "law", {PACK: source}))
    after = gateway.on_loop(second.find(owner, DOMAINS, "law"))
    assert after.stamp != before.stamp
    assert Path(after.path).read_bytes() == b"another"
    assert Path(before.path).read_bytes() == b"planted walrus" * 1000, "a request may wait to use it"
    assert len([path for path in (tmp_path / "store").rglob("*") if path.is_file()]) == 1


def test_a_local_copy_that_is_another_file_is_never_used(
    gateway: Gateway, pair: tuple[StoredFiles, StoredFiles], owner: str, source: Path, tmp_path: Path
) -> None:
    first, _ = pair
    gateway.on_loop(first.put(owner, DOMAINS, "law", {PACK: source}))
    copy = Path(gateway.on_loop(first.find(owner, DOMAINS, "law")).path)
    copy.write_bytes(b"something else")
    gateway.on_loop(first.find(owner, DOMAINS, "law"))
    assert copy.read_bytes() == source.read_bytes()

    blob = next(path for path in (tmp_path / "store/files").rglob("*") if path.is_file())
    whole = blob.read_bytes()
    for at in (0, len(whole) // 2, len(whole) - 1):
        copy.unlink()
        blob.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(BlobCorrupt):
            gateway.on_loop(first.find(owner, DOMAINS, "law"))
        assert not copy.exists()
        copy.write_bytes(b"")
    blob.unlink()
    with pytest.raises(BlobMissing):
        gateway.on_loop(first.find(owner, DOMAINS, "law"))


def test_the_quota_counts_what_every_gateway_has_stored(
    gateway: Gateway, owner: str, source: Path, tmp_path: Path
) -> None:
    first, second = (
        opened(gateway, tmp_path / name, quota=40_000, store=tmp_path / "store") for name in ("first", "second")
    )
    gateway.on_loop(first.put(owner, DOMAINS, "one", {PACK: source}))
    gateway.on_loop(second.put(owner, DOMAINS, "two", {PACK: source}))
    with pytest.raises(StorageFull):
        gateway.on_loop(second.put(owner, DOMAINS, "three", {PACK: source}))
    gateway.on_loop(second.put(owner, DOMAINS, "one", {PACK: source}))  # instead of the other
    gateway.on_loop(second.remove(owner, DOMAINS, "two"))
    gateway.on_loop(first.put(owner, DOMAINS, "three", {PACK: source}))
    for name in ("one", "two", "three", "four"):
        gateway.on_loop(first.put(SHARED_OWNER, DOMAINS, name, {PACK: source}))
    for name in ("one", "two", "three", "four"):
        gateway.on_loop(first.remove(SHARED_OWNER, DOMAINS, name))


def test_only_blobs_that_nothing_can_name_any_more_are_orphans(
    gateway: Gateway, pair: tuple[StoredFiles, StoredFiles], owner: str, source: Path, tmp_path: Path
) -> None:
    first, second = pair
    gateway.on_loop(first.put(owner, DOMAINS, "law", {PACK: source}))
    gateway.on_loop(first.upload(owner, DOMAINS, "never-named", {PACK: source}))
    expired = gateway.on_loop(first.upload(owner, ARTIFACTS, "a" * 32, {PACK: source}, ends_ms=1))
    gateway.on_loop(first.index.put(owner, expired))
    gateway.on_loop(first.store.put(f"jobs/tenants/{owner}/{'b' * 32}/{int(time.time())}-{'0' * 64}", b"x"))
    gateway.on_loop(first.store.put("journal/keep", b"of another part of the gateway"))
    orphans = Orphans(second, gateway.service.jobs.store)

    assert gateway.on_loop(orphans.collect()) == 0, "they are young"
    assert gateway.on_loop(orphans.collect(age_s=-60)) == 3
    assert gateway.on_loop(orphans.collect(age_s=-60)) == 0
    assert gateway.on_loop(second.find(owner, DOMAINS, "law")) is not None
    assert gateway.on_loop(first.store.get("journal/keep"))
