"""Packs of the data directory in a worker: at most so many, read anew when the file changes, of the right encoder."""

from pathlib import Path

import numpy as np
import pytest
import torch
from pack_kit import make_pack

from core.errors import TaskFailed
from core.files.disk import FileVersion, file_digest
from core.mechanisms.sentences.domain_pack import InvalidPack
from gpu_workers.handlers.embedder import PackCache
from gpu_workers.handlers.options import FileCache


def pack(path: Path, candidates: int) -> FileVersion:
    make_pack(np.eye(candidates, 8, dtype=np.float32)).save(path)
    return FileVersion(str(path), "1")


def test_the_least_recently_used_goes_and_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    first, second = pack(tmp_path / "a", 3), pack(tmp_path / "b", 4)
    cache = PackCache(torch.device("cpu"), packs_max=1)
    loaded = cache.mechanism(first, "clipped_cosine", None)
    assert cache.mechanism(first, "clipped_cosine", None) is loaded
    cache.mechanism(second, "clipped_cosine", None)
    assert cache.mechanism(first, "clipped_cosine", None) is not loaded
    with pytest.raises(InvalidPack, match="encoder"):
        cache.mechanism(first, "deep_candidate", "1" * 64)
    Path(first.path).write_bytes(b"broken")
    assert cache.mechanism(first, "clipped_cosine", None)
    with pytest.raises(InvalidPack):
        cache.mechanism(FileVersion(first.path, "2"), "clipped_cosine", None)


def test_a_file_that_is_not_the_one_that_is_named_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "pack"
    path.write_bytes(b"new")
    named = FileVersion(str(path), file_digest(path))
    cache = FileCache(lambda file: Path(file.path).read_bytes(), loaded_max=1)
    assert cache.get(named) == b"new"
    with pytest.raises(TaskFailed):
        cache.get(FileVersion(str(path), "0" * 64))
    assert cache.get(named) == b"new"

    def replaced_meanwhile(file: FileVersion) -> bytes:
        (tmp_path / "old").write_bytes(b"old")
        read = (tmp_path / "old").read_bytes()
        (tmp_path / "draft").write_bytes(b"new")
        (tmp_path / "draft").replace(path)
        return read

    with pytest.raises(TaskFailed):
        FileCache(replaced_meanwhile, loaded_max=1).get(named)


def test_a_tenant_with_many_files_evicts_its_own() -> None:
    loads: list[str] = []

    def load(file: FileVersion) -> str:
        loads.append(file.path)
        return file.path

    cache = FileCache(load, loaded_max=4)
    cache.get(FileVersion("tenants/quiet/law", "1"))
    for number in range(20):
        cache.get(FileVersion(f"tenants/busy/{number}", "1"))
    cache.get(FileVersion("tenants/quiet/law", "1"))

    assert loads.count("tenants/quiet/law") == 1
    assert len(loads) == 21
