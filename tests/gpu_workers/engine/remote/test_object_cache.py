"""The objects on a worker's disk: what appears, what is evicted for it, and what a restart finds."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from object_cache_kit import keep, named

from gpu_workers.engine.constants import group_of, group_of_file, group_of_tenant
from gpu_workers.engine.remote.object_cache import Key, NotKept, ObjectCache

KIB = 1024


def refused(cache: ObjectCache, tenant: str, content: bytes, **options: Key | int) -> str:
    with pytest.raises(NotKept) as error:
        keep(cache, tenant, content, **options)  # type: ignore[arg-type]
    return error.value.reason


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]


def test_an_object_appears_whole_or_not_at_all_and_is_private(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "files", bytes_max=100 * KIB)
    arrival = cache.arrival(named("one", b"whole"), 5)
    arrival.write(memoryview(b"who"))
    assert not cache.has(named("one", b"whole"))
    arrival.close()
    assert not files(tmp_path)
    assert refused(cache, "one", b"other", key=named("one", b"whole")) == "wrong-content"
    assert refused(cache, "one", b"whole", size=6) == "wrong-content"
    assert not files(tmp_path)
    key = keep(cache, "one", b"whole")
    assert cache.has(key)
    assert not cache.has(named("two", b"whole")), "what one tenant has brought is not another one's"
    assert cache.path(key).read_bytes() == b"whole"
    assert cache.path(key).stat().st_mode & 0o777 == 0o600
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "files", cache.path(key).parent)} == {0o700}


def test_a_tenant_that_brings_many_objects_evicts_its_own(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, bytes_max=100 * KIB)
    small = keep(cache, "small", b"s" * 10 * KIB)
    many = [keep(cache, "many", bytes([number]) * 30 * KIB) for number in range(9)]
    assert cache.has(small)
    assert [cache.has(key) for key in many] == [False] * 6 + [True] * 3
    assert sum(path.stat().st_size for path in files(tmp_path)) == 100 * KIB


def test_a_large_object_takes_space_of_others_for_itself_alone(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, bytes_max=100 * KIB)
    others = [keep(cache, f"tenant-{n}", bytes([n]) * 10 * KIB) for n in range(10)]
    first = keep(cache, "large", b"a" * 60 * KIB)
    kept = [key for key in others if cache.has(key)]
    assert len(kept) == 4
    second = keep(cache, "large", b"b" * 60 * KIB)
    assert (cache.has(first), cache.has(second)) == (False, True)
    assert all(map(cache.has, kept))
    keep(cache, "tenant-0", b"0" * 10 * KIB)
    assert not cache.has(second), "others get the space back before they take it from each other"


def test_what_a_batch_uses_is_not_evicted(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, bytes_max=100 * KIB)
    used = keep(cache, "one", b"a" * 60 * KIB)
    hold = cache.hold([used, named("one", b"missing")])
    assert hold.missing == {named("one", b"missing")}
    assert refused(cache, "one", b"b" * 60 * KIB) == "in-use"
    assert refused(cache, "two", b"b" * 60 * KIB) == "in-use"
    assert cache.has(used)
    del hold
    gc.collect()
    keep(cache, "two", b"b" * 60 * KIB)
    assert not cache.has(used)


def test_what_arrives_counts_before_it_is_there(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, bytes_max=100 * KIB)
    first = cache.arrival(named("one", b"1"), 60 * KIB)
    assert refused(cache, "two", b"b" * 60 * KIB) == "in-use"
    first.close()
    keep(cache, "two", b"b" * 60 * KIB)
    del first
    assert len(files(tmp_path)) == 1


def test_an_object_that_cannot_fit_evicts_nothing(tmp_path: Path) -> None:
    free = [10 * KIB]
    cache = ObjectCache(tmp_path, bytes_max=100 * KIB, free=lambda _: free[0])
    key = keep(cache, "one", b"a" * 10 * KIB)
    assert refused(cache, "one", b"b" * 101 * KIB) == "too-large"
    assert cache.has(key)
    free[0] = 0
    assert refused(cache, "one", b"c" * 30 * KIB) == "disk-full"
    assert cache.has(key)


def test_the_number_of_objects_is_limited_by_the_bytes(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, bytes_max=100 * KIB)
    for number in range(60):
        keep(cache, "one", bytes([number]))
    assert len(files(tmp_path)) == 25


def test_a_restart_finds_what_was_kept_and_trusts_no_byte_of_it(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, bytes_max=100 * KIB)
    good, changed, cut = (keep(cache, "one", name * 10 * KIB) for name in (b"a", b"b", b"c"))
    cache.arrival(named("one", b"d"), 1).write(memoryview(b"d"))
    partial = tmp_path / f".{'0' * 32}.partial"
    partial.write_bytes(b"left by a crash")
    cache.path(changed).write_bytes(b"x" * 10 * KIB)
    os.truncate(cache.path(cut), 5)
    (tmp_path / "not-ours").mkdir()
    again = ObjectCache(tmp_path, bytes_max=100 * KIB)
    assert not partial.exists()
    assert [again.has(key) for key in (good, changed, cut)] == [True, False, False]
    assert [again.path(key).exists() for key in (good, changed, cut)] == [True, False, False]
    assert (tmp_path / "not-ours").exists()
    keep(again, "one", b"b" * 10 * KIB)
    assert again.has(changed)
    ObjectCache(tmp_path, bytes_max=15 * KIB)
    assert len(files(tmp_path)) == 1, "the limit may be lower than it was"


def test_a_file_that_is_changed_while_the_worker_runs_is_not_used(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, bytes_max=100 * KIB)
    key = keep(cache, "one", b"right")
    assert cache.open(key, 6) is None
    fd = cache.open(key, 5)
    assert fd is not None
    os.close(fd)
    cache.path(key).write_bytes(b"wrong")
    assert cache.hold([key]).missing == {key}
    assert not cache.path(key).exists()


def test_the_folder_of_a_file_decides_what_it_counts_for() -> None:
    own = group_of_file("/data/cache/domains/tenants/acme/legal.safetensors")
    assert own == group_of_file("/elsewhere/recognisers/tenants/acme/codes.recogniser") == group_of_tenant("acme")
    shared = group_of_file("/data/cache/domains/shared/legal.safetensors")
    assert len({own, shared, group_of_tenant("other"), group_of("tenants"), group_of("tenantsacme")}) == 5
