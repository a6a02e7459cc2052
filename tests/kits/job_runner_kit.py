"""Job runners as an operator starts them: by `privacy-gateway worker --role jobs`, each with its own data directory."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import preloaded_kit
from gateway_kit import COMMAND, LEAN, clean_environment

TOKEN = {"PRIVACY_GATEWAY_WORKERS_TOKEN": "a-token-of-the-job-runners"}


def uses_runners(*addresses: str) -> dict[str, str]:
    """The settings of a gateway whose jobs run on these runners."""
    listed = json.dumps([f"jobs={address}" for address in addresses])
    return TOKEN | {"PRIVACY_GATEWAY_JOBS": "remote", "PRIVACY_GATEWAY_WORKERS": listed}


class CommandRunner:
    """A started job runner. `end` drains it, `kill` does not."""

    def __init__(
        self, address: str, data_dir: Path, *, places: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        self.address = address
        self.data_dir = data_dir
        data_dir.mkdir(parents=True, exist_ok=True)
        self.log_path = data_dir.with_suffix(".log")
        arguments = ["worker", "--role", "jobs", "--jobs", str(places), "--listen", address]
        with self.log_path.open("ab") as log:
            self.process = preloaded_kit.start(
                [str(COMMAND), *arguments, "--data-dir", str(data_dir)],
                env=clean_environment() | LEAN | TOKEN | dict(settings or {}),
                output=log,
                errors=log,
            )

    @property
    def folders(self) -> list[Path]:
        """Those of attempts."""
        return [path for path in self.data_dir.glob("job-runs/*/*") if path.is_dir()]

    def files_holding(self, needles: list[bytes]) -> list[str]:
        """The files of this runner, its log among them, that hold one of these."""
        found = []
        for path in (*self.data_dir.rglob("*"), self.log_path):
            with contextlib.suppress(OSError):  # files come and go
                content = path.read_bytes()
                found += [str(path)] if any(needle in content for needle in needles) else []
        return found

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Drain the runner, if it still runs. It leaves no folder of an attempt."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGTERM)
            assert self.process.wait(120) == 0
            assert not self.folders
