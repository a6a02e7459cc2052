"""Starting and stopping: nothing is left behind, and what cannot start says why in one line."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from gateway_kit import Gateway, children, refused_start


def test_every_end_keeps_the_ledger_and_an_orderly_one_leaves_no_process(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "data")
    try:
        tenant = gateway.tenant(epsilon=5)
        assert tenant.embed(epsilon=2).status_code == 200
        for number in (signal.SIGTERM, signal.SIGINT):
            left = list(children(gateway.process.pid))
            assert len(left) == 3, "Redis and two workers"

            gateway.process.send_signal(number)
            assert gateway.process.wait(30) == 0
            for pid in left:
                with pytest.raises(ProcessLookupError):
                    os.kill(pid, 0)

            gateway.start()
            assert tenant.committed() == 2.0

        # killed, it leaves nothing behind that stops the next one
        gateway.process.kill()
        gateway.process.wait()
        started = time.monotonic()
        gateway.start()
        assert time.monotonic() - started < 60
        assert tenant.committed() == 2.0
    finally:
        gateway.stop()


def test_a_wrong_setting_is_named_and_no_secret_is_printed(tmp_path: Path) -> None:
    said = refused_start(
        tmp_path / "data", {"PRIVACY_GATEWAY_HOLD_TTL_S": "1", "PRIVACY_GATEWAY_MASTER_KEY": "ab" * 32}
    )

    assert "HOLD_TTL_S" in said
    assert "abab" not in said
