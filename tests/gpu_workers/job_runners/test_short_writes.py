"""Files of a job arrive whole where a write stops early, as on a disk that becomes full."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest

from gpu_workers.job_runners import frames
from gpu_workers.job_runners.frames import Kind, Listed, receive


class ShortWrites(io.FileIO):
    """Writes at most 300 bytes at a time, as the system may."""

    def write(self, data: Any) -> int:
        return super().write(bytes(data)[:300])


def test_a_write_that_stops_early_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_new", lambda path: ShortWrites(path, "xb"))
    content = bytes(range(250)) * 4
    messages = iter([bytes([Kind.PART]) + content[:700], bytes([Kind.PART]) + content[700:]])

    async def next_message() -> bytes:
        return next(messages)

    asyncio.run(receive([Listed("input", len(content))], lambda name: tmp_path / name, next_message))
    assert (tmp_path / "input").read_bytes() == content
