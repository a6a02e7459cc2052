"""Starting and stopping: nothing is left behind, and what cannot start says why in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from gateway_kit import COMMAND, Gateway, children, clean_environment


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_leaves_no_process_and_keeps_the_ledger(tmp_path: Path, number: signal.Signals) -> None:
    gateway = Gateway(tmp_path / "data")
    try:
        tenant = gateway.tenant(epsilon=5)
        assert tenant.embed(epsilon=2).status_code == 200
        left = list(children(gateway.process.pid))
        assert len(left) == 3, "Redis and two workers"

        gateway.process.send_signal(number)
        assert gateway.process.wait(30) == 0
        for pid in left:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)

        gateway.start()
        assert tenant.committed() == 2.0
    finally:
        gateway.stop()


def test_a_killed_gateway_leaves_nothing_that_stops_the_next_one(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "data")
    try:
        tenant = gateway.tenant(epsilon=5)
        assert tenant.embed(epsilon=2).status_code == 200
        gateway.process.kill()
        gateway.process.wait()
        started = time.monotonic()
        gateway.start()
        assert time.monotonic() - started < 60
        assert tenant.committed() == 2.0
    finally:
        gateway.stop()


def test_a_wrong_setting_is_named_and_no_secret_is_printed(tmp_path: Path) -> None:
    environment = clean_environment() | {
        "PRIVACY_GATEWAY_HOLD_TTL_S": "1",
        "PRIVACY_GATEWAY_MASTER_KEY": "ab" * 32,
    }
    refused = subprocess.run(
        [str(COMMAND), "serve", "--port", "0", "--data-dir", str(tmp_path / "data")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )

    assert refused.returncode == 1
    assert "HOLD_TTL_S" in refused.stderr
    assert "abab" not in refused.stderr
    assert "Traceback" not in refused.stderr
