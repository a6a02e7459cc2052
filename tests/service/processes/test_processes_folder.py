"""A gateway without a supervisor after those of one."""

import asyncio
from pathlib import Path

import pytest

from core.errors import DataDirInUse
from service.config.data_dir import PROCESSES
from service.config.settings import Settings
from service.processes.supervisor import gateways_lock, leave, supervisor_lock


def test_copies_of_further_gateways_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / PROCESSES
    for number in ("2", "10"):
        copies = folder / number / "cache"
        copies.mkdir(parents=True)
        (copies / "pack.safetensors").write_bytes(b"plain")
    for _ in range(2):
        asyncio.run(leave(Settings(data_dir=tmp_path)))
        assert {path.name for path in folder.iterdir()} == {"supervisor.lock", "gateways.lock"}


def test_a_gateway_that_had_no_group_gets_no_folder(tmp_path: Path) -> None:
    asyncio.run(leave(Settings(data_dir=tmp_path)))
    assert list(tmp_path.iterdir()) == []


def test_a_running_group_keeps_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / PROCESSES
    (folder / "2").mkdir(parents=True)
    held = supervisor_lock(folder)
    assert held.try_acquire()
    with pytest.raises(DataDirInUse):
        asyncio.run(leave(Settings(data_dir=tmp_path)))
    held.release()

    draining = gateways_lock(folder)
    assert draining.try_acquire()

    async def main() -> None:
        leaving = asyncio.create_task(leave(Settings(data_dir=tmp_path)))
        await asyncio.sleep(0)
        assert (folder / "2").exists()
        draining.release()
        await leaving

    asyncio.run(main())
    assert not (folder / "2").exists()
