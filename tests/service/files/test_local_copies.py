"""Local copies: bounded by the settings of the cache and of the disk, and removed when no entry names them."""

import os
import secrets
import time
from pathlib import Path

import pytest
from inprocess_kit import Gateway, opened_gateway

from core.blobs.local import LocalBlobs
from core.errors import StorageFull
from core.files.disk import file_digest
from core.master_key import MasterKey
from core.redis.names import SHARED_OWNER
from core.state.stored_files import ARTIFACTS, DOMAINS, StoredFileIndex
from gpu_workers.packs import pack_paths
from service.files.copies import IN_USE_S, LocalCopies
from service.files.orphans import remove_forgotten
from service.files.stored import StoredFiles

PACK = ".safetensors"


def opened(folder: Path, *, bytes_max: int = 1000, free: int = 10**9, free_min: int = 0) -> LocalCopies:
    return LocalCopies(folder, bytes_max=bytes_max, free_bytes_min=free_min, free=lambda _: free)


def copy(copies: LocalCopies, owner: str, name: str, size: int, *, idle: bool = False, area: str = DOMAINS) -> Path:
    path = copies.path(owner, area, name, PACK, "0" * 64)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    if idle:
        rest(path)
    return path


def rest(path: Path, *, for_s: float = IN_USE_S + 60) -> None:
    """The copy was last used so long ago."""
    os.utime(path, (time.time() - for_s, path.stat().st_mtime))


def ensure_space(copies: LocalCopies, owner: str, size: int) -> None:
    with copies.coming(owner, size) as token:
        copies.ensure_space(token)


def test_space_is_freed_before_a_copy_is_written(tmp_path: Path) -> None:
    copies = opened(tmp_path)
    idle = [copy(copies, owner, f"old-{n}", 300, idle=True) for n, owner in enumerate(("acme", SHARED_OWNER))]
    rest(idle[0], for_s=IN_USE_S + 3600)
    used = copy(copies, "acme", "used", 300)
    ensure_space(copies, "other", 300)
    assert [path.exists() for path in (*idle, used)] == [False, True, True], "the one that was used longest ago"
    with copies.coming("third", 300):  # another one that is being made
        ensure_space(copies, "other", 300)
    assert [path.exists() for path in (*idle, used)] == [False, False, True]


def test_a_copy_that_does_not_fit_is_refused_and_those_in_use_stay(tmp_path: Path) -> None:
    copies = opened(tmp_path)
    used = copy(copies, SHARED_OWNER, "used", 700)
    with pytest.raises(StorageFull) as refused:
        ensure_space(copies, "acme", 400)
    assert refused.value.limit == "store_cache_bytes_max"
    assert used.exists()


def test_the_free_space_of_the_disk_is_kept(tmp_path: Path) -> None:
    copies = opened(tmp_path, free=1000, free_min=500)
    ensure_space(copies, "acme", 250)  # it is on the disk twice for a moment
    with pytest.raises(StorageFull) as refused:
        ensure_space(copies, "acme", 251)
    assert refused.value.limit == "disk_free_bytes_min"
    copy(copies, "acme", "old", 100, idle=True)
    ensure_space(copies, "acme", 300)
    copies.check_disk(750)  # an upload leaves half of it, as a running job does
    with pytest.raises(StorageFull):
        copies.check_disk(751)


def test_a_tenant_that_uses_many_copies_leaves_space_for_others(tmp_path: Path) -> None:
    copies = opened(tmp_path)
    ensure_space(copies, "acme", 900)  # the first one has no share
    for n in range(2):
        copy(copies, "acme", f"own-{n}", 200)
    with pytest.raises(StorageFull):
        ensure_space(copies, "acme", 200)
    ensure_space(copies, "other", 200)
    ensure_space(copies, SHARED_OWNER, 600)


def test_an_artifact_is_in_use_for_a_minute(tmp_path: Path) -> None:
    copies = opened(tmp_path)
    downloaded = [copy(copies, "acme", f"{n:032x}", 300, area=ARTIFACTS) for n in range(3)]
    rest(downloaded[0], for_s=180)
    rest(downloaded[1], for_s=120)
    ensure_space(copies, "other", 300)
    assert [path.exists() for path in downloaded] == [False, True, True]


def test_copies_that_no_entry_names_are_removed_once_they_are_idle(gateway: Gateway, tmp_path: Path) -> None:
    owner = f"t-{secrets.token_hex(6)}"
    client, master_key = gateway.service.parts[StoredFiles].index._client, gateway.service.parts[MasterKey]
    store, index = LocalBlobs(tmp_path / "store"), StoredFileIndex(client, bytes_max=10**9)
    first, second = (
        StoredFiles(opened(tmp_path / name, bytes_max=10**9), store, index, master_key) for name in ("first", "second")
    )
    source = tmp_path / "source"
    source.write_bytes(b"planted walrus")
    copies = {}
    for name in ("kept", "deleted", "replaced", "used"):
        gateway.on_loop(first.put(owner, DOMAINS, name, {PACK: source}))
        copies[name] = Path(gateway.on_loop(second.find(owner, DOMAINS, name)).path)
    copies["expired"] = second.copies.path(owner, ARTIFACTS, "a" * 32, PACK, file_digest(source))
    copies["expired"].parent.mkdir(parents=True)
    copies["expired"].write_bytes(source.read_bytes())
    named = gateway.on_loop(first.upload(owner, ARTIFACTS, "a" * 32, {PACK: source}, ends_ms=1))
    gateway.on_loop(first.index.put(owner, named))
    for name in ("deleted", "used"):
        gateway.on_loop(first.remove(owner, DOMAINS, name))
    source.write_bytes(b"another")
    gateway.on_loop(first.put(owner, DOMAINS, "replaced", {PACK: source}))
    for name, path in copies.items():
        if name != "used":
            rest(path)

    assert gateway.on_loop(remove_forgotten(second)) == 3
    assert {name for name, path in copies.items() if path.exists()} == {"kept", "used"}
    assert gateway.on_loop(remove_forgotten(second)) == 0
    assert Path(gateway.on_loop(second.find(owner, DOMAINS, "replaced")).path).read_bytes() == b"another"


def test_a_pack_that_does_not_fit_is_a_507_and_costs_nothing(tmp_path: Path) -> None:
    with opened_gateway(tmp_path, STORE_CACHE_BYTES_MAX="1000") as gateway:
        tenant = gateway.tenant()
        pack = {PACK: pack_paths()["general"]}
        gateway.on_loop(gateway.service.parts[StoredFiles].put(tenant.name, DOMAINS, "own", pack))
        answer = tenant.embed(domain="own")
        assert (answer.status_code, answer.json()["code"]) == (507, "storage-full")
        assert answer.json()["limit"] == "store_cache_bytes_max"
        (listed,) = (row for row in tenant.http.get("/domains").json()["domains"] if row["name"] == "own")
        assert not listed["usable"]
        assert tenant.account()["reserved"]["epsilon"] == tenant.committed() == 0.0
        assert tenant.embed().status_code == 200, "an installed pack needs no copy"
