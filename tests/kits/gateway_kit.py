"""A real gateway for tests and benchmarks: the installed command, its own Redis, its own workers, over HTTP."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import preloaded_kit
from wait_kit import until

from service.config.data_dir import MEASURED

COMMAND = Path(sys.executable).with_name("privacy-gateway")
START_S_MAX = 300.0
DEFAULTS = {
    "PRIVACY_GATEWAY_JOB_PRIORITY": "normal",  # an idle job would wait until the other tests have ended
    "PRIVACY_GATEWAY_ACCOUNTING_TIMEOUT_S": "180",  # beside other tests, a calculation may wait for a processor
    "PRIVACY_GATEWAY_REDIS_TIMEOUT_S": "20",  # a process that stops for some seconds is no outage
}
# a folder, in which the gateways of one run of tests keep what their workers measure on this machine; unset, each has
# its own and measures again
MEASURED_VARIABLE = "TESTS_MEASURED_DIR"
# for gateways that start often: no models that fill or find names
LEAN = {"PRIVACY_GATEWAY_TAGGER": "off", "PRIVACY_GATEWAY_INFILL": "off"}

DOCUMENT = (
    "The new phone arrived on Monday. The screen is bright and sharp. I wish the battery lasted longer. "
    "My brother bought the same model last year. He still likes it a lot. Support answered within a day."
)


def clean_environment() -> dict[str, str]:
    """The test's environment without any setting of a gateway."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PRIVACY_GATEWAY_") and name != "REDIS_URL"
    }


def _documented(page: str) -> str:
    """The first file in TOML that a page of the documentation shows."""
    return (Path(__file__).parents[2] / "docs" / page).read_text().split("```toml\n")[1].split("```")[0]


documented_presets = partial(_documented, "concepts/openai-clients.md")
documented_policies = partial(_documented, "reference/sanitize.md")


def documented_settings(folder: Path) -> dict[str, str]:
    """Of gateways that tests share: the documented presets and policies, and two encoders for fine-tuning."""
    (folder / "presets.toml").write_text(documented_presets())
    (folder / "policies.toml").write_text(documented_policies())
    (folder / "lists").mkdir()
    (folder / "lists" / "clinical.txt").write_text("the patient was seen by\n")
    for name in ("tiny", "pickled"):  # a test writes the checkpoint; the other has weights in another format
        (folder / "encoders" / name).mkdir(parents=True)
    (folder / "encoders" / "pickled" / "pytorch_model.bin").write_bytes(b"no pickle is read")
    return {
        "PRIVACY_GATEWAY_FINETUNE_MODELS": json.dumps(
            {name: str(folder / "encoders" / name) for name in ("tiny", "pickled")}
        ),
        "PRIVACY_GATEWAY_PRESETS_FILE": str(folder / "presets.toml"),
        "PRIVACY_GATEWAY_POLICIES_FILE": str(folder / "policies.toml"),
        "PRIVACY_GATEWAY_ALLOW_LISTS_DIR": str(folder / "lists"),
    }


def share_measurements(data_dir: Path) -> None:
    """Let the workers of a new data directory find what those of another one have measured."""
    shared, own = os.environ.get(MEASURED_VARIABLE), data_dir / MEASURED
    if shared and not own.parent.exists():
        own.parent.mkdir(mode=0o700, parents=True)
        own.symlink_to(shared, target_is_directory=True)


def free_port() -> int:
    """Below the ports that the system gives to clients, which come and go between this look and a gateway's start."""
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def children(pid: int) -> dict[int, str]:
    """The processes that `pid` and its children have started, and their command lines."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found: dict[int, str] = {}
    left = [pid]
    while left:
        parent = left.pop()
        for child in [one for one, its_parent in parents.items() if its_parent == parent]:
            found[child] = command_line(child)
            left.append(child)
    return found


def command_line(pid: int) -> str:
    """What `pid` runs; nothing for a process that has ended, reaped or not."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def cpu_ticks(pid: int) -> int:
    """Processor time that `pid` has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def has_loaded(pid: int, library: str) -> bool:
    return library in Path(f"/proc/{pid}/maps").read_text()


def until_idle(pid: int) -> None:
    """Until `pid` waits for something: a second and a half without processor time."""

    def is_idle() -> bool:
        ticks = cpu_ticks(pid)
        time.sleep(1.5)
        return cpu_ticks(pid) == ticks

    until(is_idle, "it goes on")


def until_ended(pid: int) -> None:
    until(lambda: not command_line(pid), "it has not ended")


def until_answered(url: str, process: preloaded_kit.Forked | subprocess.Popen[bytes], log: Path) -> None:
    """Until the server of this process answers 200."""

    def is_answered() -> bool:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(url, timeout=15).status_code == 200
        return False

    until(is_answered, "not ready", within_s=START_S_MAX)


def end(process: preloaded_kit.Forked | subprocess.Popen[bytes]) -> None:
    """End a server in an orderly way, or by SIGKILL if it does not."""
    process.terminate()
    try:
        process.wait(120)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def refused_start(data_dir: Path, settings: dict[str, str]) -> str:
    """What `serve` says when these settings keep it from starting; it ends with 1 and without a traceback."""
    refused = subprocess.run(
        [str(COMMAND), "serve", "--port", "0", "--data-dir", str(data_dir)], capture_output=True, text=True,
        env=clean_environment() | settings, timeout=START_S_MAX,
    )  # fmt: skip
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
    return refused.stderr


def good(answer: httpx.Response) -> Any:
    """The JSON of an answer, which is a success."""
    assert answer.status_code == 200, answer.text
    return answer.json()


def pages(client: httpx.Client, path: str, member: str, **query: Any) -> list[list[dict[str, Any]]]:
    """The rows of each page of a list."""
    found, cursor = [], query
    while cursor is not None:
        page = good(client.get(path, params=cursor))
        found.append(page[member])
        cursor = None if page["next_cursor"] is None else query | {"cursor": page["next_cursor"]}
    return found


@dataclass
class Tenant:
    """A tenant of the gateway under test and an HTTP client with its key."""

    name: str
    key: str
    http: httpx.Client

    def embed(self, documents: list[dict[str, Any]] | None = None, **fields: Any) -> httpx.Response:
        headers = fields.pop("headers", {})
        body = {"documents": documents or [{"text": DOCUMENT}], "epsilon": 1.0} | fields
        return self.http.post("/embed/sentdp", json=body, headers=headers)

    def sanitize_lines(self, *lines: Any, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """Send terms and documents as a stream; a line of `bytes` is sent as it is."""
        content = b"".join(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in lines)
        types = {"Content-Type": "application/x-ndjson"} | dict(headers or {})
        return self.http.post("/sanitize/batch", content=content, headers=types)

    def account(self, unit: str = "sentence") -> dict[str, Any]:
        return good(self.http.get(f"/budget/{self.name}/{unit}"))

    def committed(self, unit: str = "sentence") -> float:
        return self.account(unit)["committed"]["epsilon"]

    @property
    def key_id(self) -> str:
        return self.key.split("_")[1]


class Tenants(ABC):
    """Clients and tenants of a gateway with this data directory, however it runs."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self._clients: list[httpx.Client] = []

    @abstractmethod
    def new_client(self, headers: Mapping[str, str]) -> httpx.Client:
        """A client of this gateway that sends these headers."""

    def client(self, key: str | None) -> httpx.Client:
        client = self.new_client({} if key is None else {"Authorization": f"Bearer {key}"})
        self._clients.append(client)
        return client

    @property
    def anyone(self) -> httpx.Client:
        """A client without a key."""
        return self.client(None)

    @property
    def admin_key(self) -> str:
        return (self.data_dir / "admin.key").read_text().strip()

    @property
    def admin(self) -> httpx.Client:
        return self.client(self.admin_key)

    def admin_log(self, *, limit: int = 1000) -> list[dict[str, Any]]:
        """The whole log of administrative actions, oldest first, read in pages of at most `limit` entries."""
        found = pages(self.admin, "/admin/audit", "entries", cursor=0, limit=limit)
        assert max(map(len, found)) <= limit
        return [entry for page in found for entry in page]

    def tenant(self, name: str | None = None, *, epsilon: float = 1000.0, **fields: Any) -> Tenant:
        name = name or f"t-{uuid.uuid4().hex[:12]}"
        answer = self.admin.post("/admin/tenants", json={"name": name, "epsilon": epsilon, **fields})
        assert answer.status_code == 201, answer.text
        key = answer.json()["key"]
        return Tenant(name, key, self.client(key))

    def with_key(self, tenant: Tenant, *roles: str) -> Tenant:
        """The tenant by a new key with these roles, by default the usual ones."""
        body = {"roles": list(roles)} if roles else None
        answer = self.admin.post(f"/admin/tenants/{tenant.name}/keys", json=body)
        assert answer.status_code == 201, answer.text
        key = answer.json()["key"]
        return Tenant(tenant.name, key, self.client(key))

    def revoke(self, tenant: Tenant) -> None:
        """Revoke the key of the tenant."""
        answer = self.admin.delete(f"/admin/tenants/{tenant.name}/keys/{tenant.key_id}")
        assert answer.status_code == 200, answer.text

    def reconnected(self, tenant: Tenant) -> Tenant:
        """The tenant, with a client for this gateway as it runs now."""
        return Tenant(tenant.name, tenant.key, self.client(tenant.key))

    def close_clients(self) -> None:
        for client in self._clients:
            client.close()


class Gateway(Tenants):
    """A running `privacy-gateway serve` on a free port.

    folder: the working directory; that of the tests by default. forked: start it as a fork of a process that has
    imported its modules (`preloaded_kit`).
    """

    process: preloaded_kit.Forked | subprocess.Popen[bytes]

    def __init__(
        self,
        data_dir: Path,
        environment: dict[str, str] | None = None,
        *,
        port: int | None = None,
        command: tuple[str, ...] = (str(COMMAND),),
        folder: Path | None = None,
        forked: bool = True,
    ) -> None:
        super().__init__(data_dir)
        self.environment = environment or {}
        self.forked = forked
        self.port = port or free_port()
        self.command = command
        self.arguments: tuple[str, ...] = ()  # of `serve`, at the next start
        self.folder = folder
        self.log_path = data_dir.parent / f"{data_dir.name}.log"
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        share_measurements(self.data_dir)
        command = [*self.command, "serve", "--port", str(self.port), "--data-dir", str(self.data_dir)]
        command += self.arguments
        environment = preloaded_kit.as_started(clean_environment()) | DEFAULTS | self.environment
        with self.log_path.open("ab") as log:
            if self.forked:
                self.process = preloaded_kit.start(command, env=environment, output=log, errors=log, folder=self.folder)
            else:
                self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=self.folder)
        try:
            self.wait_ready()
        except BaseException:  # else it would answer for the one that the next start makes
            self.process.kill()
            self.process.wait()
            raise

    def wait_ready(self) -> None:
        until_answered(f"{self.url}/readyz", self.process, self.log_path)

    def new_client(self, headers: Mapping[str, str]) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=headers, timeout=300)

    def pid_of(self, what: str) -> int:
        """The child process whose command line holds `what`."""
        return next(pid for pid, line in children(self.process.pid).items() if what in line)

    def until_child(self, what: str) -> int:
        """As `pid_of`, once there is one."""
        return until(lambda: [pid for pid, line in children(self.process.pid).items() if what in line], what)[0]

    def kill(self, what: str) -> None:
        os.kill(self.pid_of(what), signal.SIGKILL)

    def die(self) -> None:
        """SIGKILL to the gateway itself; returns once its workers and jobs have noticed and ended. Redis stays."""
        pids = children(self.process.pid)
        self.process.kill()
        self.process.wait()
        for pid in pids:
            if "redis" not in command_line(pid):
                until_ended(pid)

    def stop(self) -> None:
        self.close_clients()
        end(self.process)
