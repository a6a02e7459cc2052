"""Several gateways of one supervisor: one ledger, one socket, one fork server, and no process that is left."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from alert_kit import until
from gateway_kit import LEAN, Gateway, Tenant, children, command_line, free_port, good, refused_start, until_ended

PROCESS = "service.processes.gateway_process"
WORKER = "gpu_workers.engine.worker"
WITHIN_S = 120.0
POLICIES = """
[policies.research]
tenants = ["lab"]
default_for = ["lab"]

[policies.research.mask]
entities = ["PROJECT_CODE"]

[policies.research.recognisers.project-codes]
entity = "PROJECT_CODE"
patterns = ['PX-\\d{4}']
"""


class Group(Gateway):
    """A supervisor of two gateways."""

    def __init__(self, data_dir: Path) -> None:
        self.admin_port = free_port()
        policies = data_dir.parent / "policies.toml"
        policies.write_text(POLICIES)
        environment = LEAN | {
            "PRIVACY_GATEWAY_POLICIES_FILE": str(policies),
            "PRIVACY_GATEWAY_PROCESSES": "2",
            "PRIVACY_GATEWAY_ADMIN_PORT": str(self.admin_port),
        }
        super().__init__(data_dir, environment, forked=False)

    @property
    def admin(self) -> httpx.Client:
        key = (self.data_dir / "admin.key").read_text().strip()
        return httpx.Client(base_url=self.admin_url(1), headers={"Authorization": f"Bearer {key}"}, timeout=60)

    def admin_url(self, number: int) -> str:
        return f"http://127.0.0.1:{self.admin_port + number - 1}"

    def is_ready(self, number: int) -> bool:
        try:
            return httpx.get(f"{self.admin_url(number)}/readyz", timeout=15).status_code == 200
        except httpx.TransportError:
            return False

    def wait_ready(self) -> None:
        def all_ready() -> bool:
            assert self.process.poll() is None, self.log_path.read_text()
            return self.is_ready(1) and self.is_ready(2)

        until(all_ready)

    def metric(self, number: int, name: str) -> float:
        """The sum of a metric over its labels, in one gateway."""
        lines = httpx.get(f"{self.admin_url(number)}/metrics", timeout=60).text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    def gateways(self) -> list[int]:
        """Their process ids."""
        return [pid for pid, line in children(self.process.pid).items() if PROCESS in line]

    @contextmanager
    def only(self, pid: int) -> Iterator[None]:
        """The other gateways are stopped, so that this one accepts every connection."""
        others = [other for other in self.gateways() if other != pid]
        for other in others:
            os.kill(other, signal.SIGSTOP)
        try:
            yield
        finally:
            for other in others:
                os.kill(other, signal.SIGCONT)

    def every_process(self) -> dict[int, str]:
        """The supervisor's processes, and theirs."""
        return children(self.process.pid)

    def workers(self) -> list[int]:
        """The process ids of all gateways' workers."""
        return [pid for pid, line in self.every_process().items() if WORKER in line]


@pytest.fixture(scope="module")
def group(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    gateway = Group(tmp_path_factory.mktemp("group") / "data")
    yield gateway
    if gateway.process.poll() is None:
        gateway.stop()


def masked(group: Group, tenant: Tenant, text: str, **fields: Any) -> str:
    return str(
        good(group.reconnected(tenant).http.post("/sanitize", json={"documents": [{"text": text}], **fields}))["data"][
            0
        ]["text"]
    )


def test_each_gateway_answers_for_the_same_tenants_and_charges_one_ledger(group: Group) -> None:
    tenant = group.tenant("lab", epsilon=10)
    first, second = group.gateways()
    terms = {"entity": "PROJECT", "deny": ["Blue Heron"]}
    with group.only(first):
        assert group.reconnected(tenant).embed(epsilon=2).status_code == 200
        assert group.reconnected(tenant).http.put("/sanitize/recognisers/projects", json=terms).status_code == 201
        assert masked(group, tenant, "PX-1234 ends.") == "[PROJECT_CODE] ends.", "by the policy"
    with group.only(second):
        assert group.reconnected(tenant).embed(epsilon=3).status_code == 200
        assert masked(group, tenant, "PX-1234 ends.") == "[PROJECT_CODE] ends."
        assert masked(group, tenant, "Blue Heron ends.", mask={"recognisers": ["projects"]}) == "[PROJECT] ends."
    assert tenant.committed() == 5.0
    requests = 'gateway_requests_total{route="/embed/sentdp"'
    assert [group.metric(number, requests) for number in (1, 2)] == [1, 1]
    until(lambda: sum(group.metric(number, "gateway_holds_duties") for number in (1, 2)) == 1)


def test_killed_processes_come_back_and_the_others_serve_meanwhile(group: Group) -> None:
    tenant = group.tenant(epsilon=100)
    killed, other = group.gateways()
    os.kill(killed, signal.SIGKILL)
    until_ended(killed)
    assert group.reconnected(tenant).embed(epsilon=1).status_code == 200
    until(lambda: len(group.gateways()) == 2 and group.is_ready(1) and group.is_ready(2))
    (new,) = set(group.gateways()) - {other}
    with group.only(new):
        assert group.reconnected(tenant).embed(epsilon=1).status_code == 200

    for worker in group.workers():
        os.kill(worker, signal.SIGKILL)
        until_ended(worker)
    until(lambda: group.is_ready(1) and group.is_ready(2))
    until(lambda: group.reconnected(tenant).embed(epsilon=1).status_code == 200)
    assert tenant.account()["reserved"]["epsilon"] == 0


def test_the_end_of_the_supervisor_ends_every_process(group: Group) -> None:
    tenant = group.tenant(epsilon=5)
    assert tenant.embed(epsilon=2).status_code == 200
    left = group.every_process()
    group.process.kill()
    group.process.wait()
    for pid, line in left.items():
        if "redis-server" not in line:
            until_ended(pid)

    group.start()  # ends the Redis of the supervisor that was killed
    assert not any(command_line(pid) for pid in left)
    assert group.reconnected(tenant).committed() == 2.0

    left = group.every_process()
    assert len(left) == 8, "Redis, a fork server, and two gateways with two workers each"
    group.process.terminate()
    assert group.process.wait(WITHIN_S) == 0
    assert not any(command_line(pid) for pid in left)


@pytest.mark.slow("crash")
def test_what_cannot_start_is_said_in_one_line(tmp_path: Path) -> None:
    assert "PROCESSES above 1 needs ADMIN_PORT" in refused_start(tmp_path, {"PRIVACY_GATEWAY_PROCESSES": "2"})
