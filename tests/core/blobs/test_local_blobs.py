"""What a local folder promises beyond the contract: modes, drafts, full disks."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.blobs.local import LocalBlobs
from core.errors import StorageFull, StoreUnavailable


async def test_files_and_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    store = LocalBlobs(tmp_path / "store")
    await store.put("a/b", b"x")
    assert (tmp_path / "store/a/b").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "store/a").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o700


async def test_a_full_disk_is_its_own_error_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalBlobs(tmp_path / "store")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageFull):
            await store.put("a", b"x")
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()] == []


async def test_a_folder_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    with pytest.raises(StoreUnavailable):
        await LocalBlobs(tmp_path / "store").check()


async def test_old_drafts_of_crashed_writers_are_removed(tmp_path: Path) -> None:
    store = LocalBlobs(tmp_path / "store")
    await store.check()
    old, new = tmp_path / "store/.drafts/old", tmp_path / "store/.drafts/new"
    old.write_bytes(b"x")
    new.write_bytes(b"x")
    os.utime(old, (0, 0))
    await store.check()
    assert not old.exists()
    assert new.exists()


async def test_a_linked_file_may_be_removed_by_its_owner(tmp_path: Path) -> None:
    store, file = LocalBlobs(tmp_path / "store"), tmp_path / "file"
    file.write_bytes(b"content")
    await store.put_file("k", file)
    file.unlink()
    assert await store.get("k") == b"content"


@pytest.mark.usefixtures("processes")
def test_a_local_store_loads_no_library_of_object_stores() -> None:
    code = "import sys; from core.blobs.local import open_store as o; o('file:///x'); print('obstore' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
