"""A Ray cluster of this machine, in the environment of tests/peers/install_ray."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import httpx
from gateway_kit import clean_environment, command_line, free_port
from ray_kit import ROOT, TESTS, TOKEN
from wait_kit import until

ENVIRONMENT = ROOT / ".venv-ray"


def is_installed() -> bool:
    return (ENVIRONMENT / "installed").exists()


class RayCluster:
    """`url`: of its job interface. `folder` has everything that Ray writes."""

    def __init__(self, folder: Path, store: Path, *, cpus: int) -> None:
        self.folder = folder / "ray"
        self.port, dashboard = free_port(), free_port()
        self.url = f"http://127.0.0.1:{dashboard}"
        self._environment = clean_environment() | {
            "PATH": f"{ENVIRONMENT / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": f"{ROOT}:{TESTS}",
            "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN, "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_automatic_object_spilling_enabled": "false",
            "RAY_TMPDIR": str(self.folder), "PRIVACY_GATEWAY_STORE_URL": f"file://{store}",
        }  # fmt: skip
        self._log = (folder / "cluster.log").open("ab")
        self._nodes: list[subprocess.Popen[bytes]] = []
        head = ["--head", f"--port={self.port}", f"--dashboard-port={dashboard}", "--include-dashboard=true"]
        head.append(f"--ray-client-server-port={free_port()}")
        self._start(*head, f"--temp-dir={self.folder}", f"--num-cpus={cpus}")
        until(self._answers, "Ray does not answer")

    def _answers(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            headers = {"Authorization": f"Bearer {TOKEN}"}
            return httpx.get(f"{self.url}/api/jobs/", headers=headers, timeout=20).status_code == 200
        return False

    def _start(self, *options: str) -> subprocess.Popen[bytes]:
        common = ["--node-ip-address=127.0.0.1", "--object-store-memory=80000000", "--disable-usage-stats", "--block"]
        common += ["--min-worker-port=0", "--max-worker-port=0", f"--dashboard-agent-listen-port={free_port()}"]
        node = subprocess.Popen(
            [ENVIRONMENT / "bin/ray", "start", *common, *options], env=self._environment, stdout=self._log,
            stderr=self._log, start_new_session=True,
        )  # fmt: skip
        self._nodes.append(node)
        return node

    def add_node(self, cpus: int = 1) -> subprocess.Popen[bytes]:
        return self._start(f"--address=127.0.0.1:{self.port}", f"--num-cpus={cpus}")

    def alive(self) -> int:
        """How many nodes the cluster has, with its head."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        found = httpx.get(f"{self.url}/nodes?view=summary", headers=headers, timeout=20).json()["data"]["summary"]
        return sum(node["raylet"]["state"] == "ALIVE" for node in found)

    @staticmethod
    def processes(what: str) -> list[int]:
        """The processes of this machine whose command line begins so."""
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in pids if command_line(pid).startswith(what)]

    @staticmethod
    def end(node: subprocess.Popen[bytes]) -> None:
        """Kill a node with all of its processes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(node.pid, signal.SIGKILL)
        node.wait()

    def close(self) -> None:
        for node in reversed(self._nodes):
            self.end(node)
        self._log.close()
