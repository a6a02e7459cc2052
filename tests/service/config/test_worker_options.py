"""What the settings say of the workers."""

from __future__ import annotations

from pathlib import Path

from gpu_workers.engine.task_queue import QueueLimits
from service.config.settings import Settings
from service.config.worker_options import queue_limits


def test_a_queue_without_settings_has_the_documented_limits(tmp_path: Path) -> None:
    assert queue_limits(Settings(data_dir=tmp_path)) == QueueLimits()
    assert "| `PRIVACY_GATEWAY_QUEUE_TASKS_MAX` | `16384` |" in Path("docs/reference/settings.md").read_text()
