"""Starting and stopping: nothing is left behind, and what cannot start says why in one line."""

import os
import re
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from gateway_kit import Gateway, Tenant, children, refused_start, until


@pytest.fixture(scope="module")
def served(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Tenant]]:
    """A gateway for the tests that end and start it, and a tenant that has spent 2. Each start finds a low limit of
    open files."""
    limit, largest = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, largest))
    try:
        gateway = Gateway(tmp_path_factory.mktemp("served") / "data", {"PRIVACY_GATEWAY_TAGGER": "off"}, forked=False)
        tenant = gateway.tenant(epsilon=5)
        assert tenant.embed(epsilon=2).status_code == 200
        yield gateway, tenant
        gateway.stop()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, largest))


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow("matrix"))])
def test_a_stop_leaves_no_process_and_keeps_the_ledger(served: tuple[Gateway, Tenant], number: signal.Signals) -> None:
    gateway, tenant = served
    left = list(children(gateway.process.pid))
    assert len(left) == 5, "Redis, the fork server and three workers"
    gateway.process.send_signal(number)
    assert gateway.process.wait(300) == 0
    for pid in left:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    gateway.start()
    assert tenant.committed() == 2.0


def test_the_start_prints_a_link_that_signs_in_once(served: tuple[Gateway, Tenant], tmp_path: Path) -> None:
    gateway, tenant = served
    (tmp_path / "key").write_text(f"{tenant.key}\n")
    gateway.arguments = ("--sign-in", str(tmp_path / "key"))
    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.process.wait(300) == 0
    gateway.start()
    link = until(lambda: re.findall(r"http://\S+/dashboard/link\?token=\S+", gateway.log_path.read_text()), "a link")[
        -1
    ]
    with httpx.Client() as browser:
        assert "/dashboard/playground" in browser.get(link).text
        assert browser.get(f"{gateway.url}/dashboard/session").json()["tenant"] == tenant.name
    assert httpx.get(link).status_code == 403


def test_a_killed_gateway_leaves_nothing_that_stops_the_next_one(served: tuple[Gateway, Tenant]) -> None:
    gateway, tenant = served
    gateway.process.kill()
    gateway.process.wait()
    gateway.start()
    assert tenant.committed() == 2.0


def test_the_limit_of_open_files_is_raised_to_what_the_system_allows(served: tuple[Gateway, Tenant]) -> None:
    gateway, _ = served
    limit, largest = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert limit == 512 < largest
    assert resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE) == (largest, largest)


@pytest.mark.usefixtures("processes")
def test_a_wrong_setting_is_named_and_no_secret_is_printed(tmp_path: Path) -> None:
    said = refused_start(
        tmp_path / "data", {"PRIVACY_GATEWAY_TOMBSTONE_RETENTION_S": "1", "PRIVACY_GATEWAY_MASTER_KEY": "ab" * 32}
    )
    assert "TOMBSTONE_RETENTION_S" in said
    assert "abab" not in said
