"""One tenant cannot fill the disk: who hits a limit gets 507, what was received is gone, and the ledger goes on."""

import errno
import itertools
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from corpus_kit import json_lines, rows, submit, until, until_deleted, upload
from gateway_kit import Tenant
from inprocess_kit import Gateway, module_gateway
from synthesis_kit import shop_request, shop_rows

from core.errors import StorageFull
from core.master_key import MasterKey
from core.redis.names import SHARED_OWNER
from service.jobs.files import Incoming, JobFiles
from service.jobs.storage import Storage, write_owner

MIB = 1024 * 1024
QUOTA = 40 * MIB
FLOOR = 4 * MIB
SMALL_QUOTA = 70_000


def files_of(folder: Path, *, free: int = 10**12) -> JobFiles:
    """`free` bytes, less those of the files in the folder."""

    def free_bytes(of: Path) -> int:
        return free - sum(path.stat().st_size for path in of.rglob("*") if path.is_file())

    async def stored(_: str) -> int:
        return 0

    storage = Storage(folder, tenant_bytes_max=QUOTA, free_bytes_min=FLOOR, stored=stored, free_bytes=free_bytes)
    return JobFiles(folder, MasterKey.from_hex("7" * 64), storage)


def incoming_folders(folder: Path) -> list[Path]:
    return list((folder / "jobs").glob(".incoming-*"))


def test_files_count_that_are_not_in_the_store_yet(tmp_path: Path) -> None:
    files = files_of(tmp_path)
    for owner in ("acme", "other"):
        folder = tmp_path / "recognisers" / "tenants" / owner
        folder.mkdir(parents=True)
        (folder / "codes.recogniser").write_bytes(b"x" * 1000)
    incoming = files.incoming("acme", "a" * 32, stored=0)
    before = files.storage.used("acme")
    incoming.write(b"y" * 5000)
    incoming.finish({"name": "law"})
    assert 1000 < before < 2000, "the recogniser, and the folder of the upload"
    assert files.storage.used("acme") >= before + 5000
    assert incoming.keep()
    assert files.storage.used("acme") == files.storage.used("other") == 1000, "from then on the store's files count"


def test_an_upload_counts_what_the_store_has(tmp_path: Path) -> None:
    files = files_of(tmp_path)
    assert fill(files.incoming("acme", "a" * 32, stored=QUOTA - 5 * MIB)) == (5, "tenant_disk_bytes_max")
    with pytest.raises(StorageFull):
        files.incoming("acme", "a" * 32, stored=QUOTA + 1)


def test_files_that_vanish_while_they_are_counted_are_no_error(tmp_path: Path) -> None:
    storage = files_of(tmp_path).storage
    ended = threading.Event()

    def come_and_go() -> None:
        for number in itertools.takewhile(lambda _: not ended.is_set(), itertools.count()):
            folder = tmp_path / "jobs" / f".incoming-{number}"
            (folder / "inputs").mkdir(parents=True)
            write_owner(folder, "acme")
            shutil.rmtree(folder)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        sizes = {storage.used("acme") for _ in range(3000)}
    finally:
        ended.set()
        thread.join()
    assert sizes <= {0, len("acme")}


def fill(*uploads: Incoming) -> tuple[int, str]:
    """Write to the uploads in turn, a mebibyte each. Returns how many fitted, and the limit that ended it."""
    for written in range(100):
        try:
            uploads[written % len(uploads)].write(bytes(MIB))
        except StorageFull as full:
            return written, full.limit
    raise AssertionError("nothing limits it")


def test_an_upload_ends_at_the_quota_while_it_arrives(tmp_path: Path) -> None:
    files = files_of(tmp_path)
    incoming = files.incoming("acme", "a" * 32, stored=0)
    assert fill(incoming) == (QUOTA // MIB, "tenant_disk_bytes_max")
    assert files.incoming("other", "c" * 32, stored=0)
    incoming.discard()
    assert files.storage.used("acme") == 0
    files.incoming("acme", "b" * 32, stored=0).write(bytes(MIB))


def test_uploads_at_the_same_time_find_each_other(tmp_path: Path) -> None:
    files = files_of(tmp_path)
    written, limit = fill(*(files.incoming("acme", name * 32, stored=0) for name in "ab"))
    assert limit == "tenant_disk_bytes_max"
    assert written <= QUOTA // MIB + 2 * 16


def test_free_space_is_kept_whoever_uploads(tmp_path: Path) -> None:
    files = files_of(tmp_path, free=20 * MIB)
    for owner in ("acme", SHARED_OWNER):
        incoming = files.incoming(owner, "a" * 32, stored=0)
        written, limit = fill(incoming)
        assert limit == "disk_free_bytes_min"
        assert 10 < written < 18
        assert not files.storage.is_low()
        incoming.discard()
    with pytest.raises(StorageFull):
        files_of(tmp_path, free=FLOOR - 1).incoming("acme", "b" * 32, stored=0)
    assert not incoming_folders(tmp_path)


def test_a_disk_that_is_full_all_the_same_is_no_other_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFull):
        files_of(tmp_path).incoming("acme", "b" * 32, stored=0)
    assert not incoming_folders(tmp_path)


def test_a_start_removes_what_a_crash_left(tmp_path: Path) -> None:
    files = files_of(tmp_path)
    files.incoming("acme", "a" * 32, stored=0).write(b"x" * 2000)
    files_of(tmp_path).sweep_unfinished()
    assert files.storage.used("acme") == 0
    assert not incoming_folders(tmp_path)


narrow = module_gateway(TENANT_DISK_BYTES_MAX=str(SMALL_QUOTA))


def full(answer: Any, limit: str) -> bool:
    return (answer.status_code, answer.json()["code"], answer.json()["limit"]) == (507, "storage-full", limit)


@pytest.mark.usefixtures("processes")
def test_who_hits_the_quota_gets_507_and_keeps_nothing(narrow: Gateway) -> None:
    tenant, other = narrow.tenant(), narrow.tenant()
    large = json_lines(rows(200))
    assert len(large) > SMALL_QUOTA

    assert full(upload(tenant.http, large), "tenant_disk_bytes_max")
    assert full(submit(tenant.http, rows(200)), "tenant_disk_bytes_max")
    priced = shop_request(rows=shop_rows(3000))
    assert full(tenant.http.post("/jobs/synthesis", json=priced), "tenant_disk_bytes_max")

    assert narrow.on_loop(narrow.service.parts[Storage].used_by(tenant.name)) == 0
    assert not incoming_folders(narrow.data_dir)
    assert tenant.http.get("/jobs").json()["jobs"] == []
    for account in tenant.http.get("/budget").json()["accounts"]:
        assert account["reserved"]["epsilon"] == 0.0
    assert tenant.embed().status_code == 200
    for caller in (tenant, other):
        accepted = upload(caller.http, json_lines(rows(2)))
        assert accepted.status_code == 202
        until(caller.http, accepted.json()["job_id"])


@pytest.mark.usefixtures("processes")
def test_a_job_that_runs_while_the_disk_fills_fails_and_leaves_nothing(
    narrow: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant: Tenant = narrow.tenant()
    monkeypatch.setattr(narrow.service.parts[Storage], "is_low", lambda: True)
    created = submit(tenant.http, rows(110))
    ended = until(tenant.http, created.json()["job_id"])
    assert (ended["status"], ended["problem"]["reason"]) == ("failed", "storage-full")
    until_deleted(narrow.data_dir / "jobs" / created.json()["job_id"])
    assert narrow.on_loop(narrow.service.parts[Storage].used_by(tenant.name)) == 0
