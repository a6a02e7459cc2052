"""Job runners in processes of their own, and the folder by which a test holds the jobs of `held_job`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway_kit import Tenant, until_ended

KITS = Path(__file__).parent
WAIT_S_MAX = 240.0


def eventually(look: Callable[[], Any], what: str = "it does not happen") -> Any:
    """What `look` returns, once it is true."""
    deadline = time.monotonic() + WAIT_S_MAX
    while not (found := look()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return found


@dataclass
class HeldRunner:
    """A job runner at `address` with a data directory of its own."""

    address: str
    data_dir: Path
    places: int = 1
    content: str = ""
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                str(KITS / "held_runner.py"),
                self.address,
                str(self.data_dir),
                str(self.places),
                self.content,
            ],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(KITS), str(KITS.parents[1])])},
        )

    @property
    def folders(self) -> list[Path]:
        """Those of attempts."""
        return [path for path in self.data_dir.glob("job-runs/*/*") if path.is_dir()]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()


class Bench:
    """Holds jobs by files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)

    def submit(self, tenant: Tenant, name: str, answers: list[str] | None = None, **fields: Any) -> str:
        body = {"bench": str(self.folder), "name": name, "answers": answers or ["yes", "no"], **fields}
        created = tenant.http.post("/jobs/held", json=body)
        assert created.status_code == 202, created.text
        job_id: str = created.json()["job_id"]
        return job_id

    def held(self, name: str) -> int:
        """The process that holds this job, once it does."""
        return int(eventually(lambda: self._read(f"{name}.pid"), "no process holds the job"))

    def work(self, name: str) -> Path:
        """The folder of the process that holds this job."""
        return Path(eventually(lambda: self._read(f"{name}.folder")))

    def forget(self, name: str) -> None:
        """Notice the next process of this job."""
        for suffix in ("pid", "folder"):
            (self.folder / f"{name}.{suffix}").unlink(missing_ok=True)

    def let_go(self, name: str) -> None:
        (self.folder / f"{name}.go").touch()

    def drawn(self, name: str) -> list[str]:
        """The noise that processes of this job have drawn."""
        lines = self._read("journal").splitlines()
        return [line.rpartition(" ")[2] for line in lines if line.startswith(f"{name} drew")]

    def _read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""


def short_folder() -> tempfile.TemporaryDirectory[str]:
    """For sockets, whose paths are short."""
    return tempfile.TemporaryDirectory(prefix="held-")


def until_gone(pid: int, folder: Path) -> None:
    """Until a process of a job has ended, and its folder is removed."""
    until_ended(pid)
    eventually(lambda: not folder.exists(), "the folder stays")
