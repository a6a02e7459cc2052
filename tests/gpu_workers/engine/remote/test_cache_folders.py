"""The folders of the workers of one machine: one for each, and emptied when nobody uses them any more."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from object_cache_kit import keep, named

from gpu_workers.engine.remote.cache_folders import open_cache
from gpu_workers.engine.remote.object_cache import ObjectCache

MIB = 1024 * 1024


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]


def end(cache: ObjectCache) -> None:
    """As the death of its worker."""
    assert cache._file_lock is not None
    cache._file_lock.release()


def test_workers_of_one_machine_use_folders_of_their_own(tmp_path: Path) -> None:
    first = open_cache(tmp_path, "embed", bytes_max=MIB)
    second = open_cache(tmp_path, "embed", bytes_max=MIB)
    key = "0" * 32, "0" * 64
    assert first.path(key).is_relative_to(tmp_path / "embed-0")
    assert second.path(key).is_relative_to(tmp_path / "embed-1")
    end(first)
    assert open_cache(tmp_path, "embed", bytes_max=MIB).path(key).is_relative_to(tmp_path / "embed-0")
    (tmp_path / "not-a-folder").write_text("")
    with pytest.raises(OSError, match="Not a directory"):
        open_cache(tmp_path / "not-a-folder", "embed", bytes_max=MIB)


def test_a_start_empties_the_folders_that_no_worker_has_used_for_a_week(tmp_path: Path) -> None:
    names = ("embed", "embed", "embed", "embed", "fill")
    caches = [open_cache(tmp_path, name, bytes_max=MIB) for name in names]
    folders = [tmp_path / name for name in ("embed-0", "embed-1", "embed-2", "embed-3", "fill-0")]
    for cache in caches:
        keep(cache, "one", b"kept")
        keep(cache, "two", b"kept")
    other = tmp_path / "embed-4/notes"  # what is no object
    other.parent.mkdir()
    other.write_text("of somebody else")
    foreign = tmp_path / "reports-1"
    foreign.mkdir()
    for name in ("lock", "0" * 64):
        (foreign / name).touch()

    def rest(folder: Path, days: float, *, objects_days: float | None = None) -> None:
        for path in folder.rglob("*"):
            at = time.time() - 86_400 * (days if path.name == "lock" else objects_days or days)
            if path.is_file():
                os.utime(path, (at, at))

    rest(folders[0], 30)  # in use
    rest(folders[1], 8)
    rest(folders[2], 6)  # its worker is started again later
    rest(folders[3], 30, objects_days=1)  # its worker ran for a month
    rest(folders[4], 8)
    rest(foreign, 30)
    (folders[1] / ".crashed.partial").touch()
    used = caches[0]
    for cache in caches[1:]:
        end(cache)

    open_cache(tmp_path, "sanitize", bytes_max=MIB)
    assert [len(files(folder)) for folder in folders] == [2, 0, 2, 2, 0]
    assert used.has(named("one", b"kept"))
    assert other.exists()
    assert len(list(foreign.iterdir())) == 2
    again = [open_cache(tmp_path, "embed", bytes_max=MIB) for _ in range(2)]
    assert [cache.has(named("one", b"kept")) for cache in again] == [False, True]
    assert again[0].has(keep(again[0], "one", b"kept"))
