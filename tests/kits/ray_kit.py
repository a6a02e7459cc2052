"""A stand-in for the job interface of a Ray cluster, whose jobs are processes of this machine, and a gateway for it."""

import contextlib
import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from constants_kit import constants
from gateway_kit import LEAN, Gateway, clean_environment, free_port

TOKEN = "t" * 32
ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"


class FakeRay:
    """Answers as Ray's job interface does. `jobs`: the submissions, newest last, with the process of each."""

    def __init__(self, folder: Path, store: Path) -> None:
        self.folder = folder
        self.store = store
        self.jobs: dict[str, dict[str, Any]] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.begin: Callable[[dict[str, Any]], subprocess.Popen[bytes] | None] = self.start
        self.refuses = 0  # the next submissions
        handler = type("Handler", (_Handler,), {"ray": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def start(self, job: dict[str, Any]) -> subprocess.Popen[bytes]:
        """Run the command of a submission, as the cluster would."""
        command = shlex.split(job["entrypoint"])
        environment = clean_environment() | job["runtime_env"]["env_vars"]
        environment |= {"PRIVACY_GATEWAY_STORE_URL": f"file://{self.store}", "PYTHONPATH": f"{ROOT}:{TESTS}"}
        with (self.folder / "ray.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *command[1:]], env=environment, stdout=log, stderr=log, cwd=self.folder
            )

    def status(self, submission: str) -> str:
        process = self.processes.get(submission)
        if process is None:
            return "PENDING"
        return {None: "RUNNING", 0: "SUCCEEDED"}.get(process.poll(), "FAILED")

    def token_of(self, submission: str) -> str:
        return self.jobs[submission]["runtime_env"]["env_vars"]["PRIVACY_GATEWAY_RAY_JOB_TOKEN"]

    def close(self) -> None:
        self._server.shutdown()
        for process in self.processes.values():
            process.kill()
            process.wait()


class _Handler(BaseHTTPRequestHandler):
    ray: FakeRay

    def log_message(self, *_: Any) -> None:
        """Nothing is logged."""

    def _answer(self, status: int, content: Any = "") -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _shown(self, submission: str) -> dict[str, Any]:
        return {"submission_id": submission, "status": self.ray.status(submission), "type": "SUBMISSION"}

    def do_GET(self) -> None:
        name = self.path.removeprefix("/api/jobs/")
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self._answer(401)
        elif not name:
            self._answer(200, [self._shown(each) for each in self.ray.jobs])
        elif name in self.ray.jobs:
            self._answer(200, self._shown(name))
        else:
            self._answer(404)

    def do_POST(self) -> None:
        name = self.path.removeprefix("/api/jobs/")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            return self._answer(401)
        if name:
            submission = name.removesuffix("/stop")
            if submission in self.ray.processes:
                self.ray.processes[submission].terminate()
            return self._answer(200, {"stopped": True})
        job = json.loads(body)
        if self.ray.refuses:
            self.ray.refuses -= 1
            return self._answer(500)
        self.ray.jobs[job["submission_id"]] = job
        process = self.ray.begin(job)
        if process is not None:
            self.ray.processes[job["submission_id"]] = process
        return self._answer(200, {"submission_id": job["submission_id"]})


def settings_of(ray_url: str, store: Path, port: int) -> dict[str, str]:
    """The settings of a gateway whose jobs run on that cluster."""
    own = {
        "JOBS_ON": "ray", "RAY_URL": ray_url, "RAY_TOKEN": TOKEN, "RAY_PORT": str(port),
        "RAY_GATEWAY_URL": f"http://127.0.0.1:{port}", "STORE_URL": f"file://{store}",
    }  # fmt: skip
    return LEAN | {f"PRIVACY_GATEWAY_{name}": value for name, value in own.items()}


class RayGateway(Gateway):
    """A gateway with the kind of job of the soak, beside a cluster."""

    def __init__(self, folder: Path, ray_url: str) -> None:
        self.ray_port = free_port()
        own = settings_of(ray_url, folder / "blobs", self.ray_port)
        own |= {"PYTHONPATH": f"{TESTS}:{TESTS}/kits"} | constants({"service.ray.attempts.LEASE_MS": 8000})
        super().__init__(folder / "data", own, command=(sys.executable, "-m", "toys.cluster"), forked=False)


@contextlib.contextmanager
def fake_cluster(folder: Path) -> Iterator[tuple[RayGateway, FakeRay]]:
    """A gateway and a stand-in for its cluster."""
    ray = FakeRay(folder, folder / "blobs")
    try:
        gateway = RayGateway(folder, ray.url)
        try:
            yield gateway, ray
        finally:
            gateway.stop()
    finally:
        ray.close()


def folders_in_memory() -> set[str]:
    """The folders of entry points."""
    return {path.name for path in Path("/dev/shm").glob("privacy-gateway-job-*")}
