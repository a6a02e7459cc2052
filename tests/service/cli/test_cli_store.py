"""Commands on a Redis of one's own use the blob store of its ledger, or are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_kit import run_command
from gateway_kit import LEAN, refused_start
from redis_kit import EmbeddedServer


def test_a_command_with_another_store_is_refused_until_the_operator_accepts_it(tmp_path: Path) -> None:
    (tmp_path / "redis").mkdir()
    server = EmbeddedServer(tmp_path / "redis")
    server.start()
    environment = {"REDIS_URL": server.url, "PRIVACY_GATEWAY_MASTER_KEY": "22" * 32}
    environment["PRIVACY_GATEWAY_EPOCH_FILE"] = str(tmp_path / "ledger.epoch")

    def command(data_dir: str, *arguments: str) -> tuple[int, str]:
        done = run_command(tmp_path / data_dir, *arguments, environment=environment)
        return done.returncode, done.stderr

    try:
        assert command("one", "domain", "list") == (0, "")
        code, message = command("two", "domain", "list")
        assert (code, "PRIVACY_GATEWAY_STORE_URL" in message) == (1, True)
        assert command("two", "ledger", "accept-store")[0] == 0
        assert command("two", "domain", "list") == (0, "")
        assert command("one", "domain", "list")[0] == 1
    finally:
        server.stop()


def test_a_command_on_the_embedded_redis_does_not_change_its_store(tmp_path: Path) -> None:
    """The gateway whose Redis it is may run with other settings than the operator's shell."""

    def command(*, store: str | None = None) -> tuple[int, str]:
        environment = {"PRIVACY_GATEWAY_STORE_URL": f"file://{tmp_path / store}"} if store else {}
        done = run_command(tmp_path / "data", "domain", "list", environment=environment)
        return done.returncode, done.stderr

    assert command() == (0, "")
    code, message = command(store="other")
    assert (code, "PRIVACY_GATEWAY_STORE_URL" in message) == (1, True)
    assert command() == (0, "")


@pytest.mark.usefixtures("processes")
def test_a_store_that_another_ledger_uses_is_refused(tmp_path: Path) -> None:
    """Also by a command that accepts another store, and before either ledger has a seal."""

    def command(data_dir: str, *arguments: str, store: str = "shared") -> tuple[int, str]:
        environment = {"PRIVACY_GATEWAY_STORE_URL": f"file://{tmp_path / store}"}
        done = run_command(tmp_path / data_dir, *arguments, environment=environment)
        return done.returncode, done.stderr

    assert command("one", "domain", "list") == (0, "")
    for arguments in (("domain", "list"), ("ledger", "accept-store")):
        code, message = command("two", *arguments)
        assert (code, "belongs to another ledger" in message) == (1, True)
    serving = {"PRIVACY_GATEWAY_STORE_URL": f"file://{tmp_path / 'shared'}"}
    assert "belongs to another ledger" in refused_start(tmp_path / "two", LEAN | serving)
    assert command("two", "domain", "list", store="own") == (0, "")
    assert command("one", "domain", "list") == (0, "")
