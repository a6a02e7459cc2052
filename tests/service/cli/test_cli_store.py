"""A blob store belongs to one ledger, whoever asks."""

from pathlib import Path

import pytest
from command_kit import run_command
from gateway_kit import LEAN, refused_start


@pytest.mark.usefixtures("processes")
def test_a_store_that_another_ledger_uses_is_refused(tmp_path: Path) -> None:
    """Also by the command that accepts another store, and before either ledger has a seal."""

    def accepted(data_dir: str, store: str) -> tuple[int, str]:
        environment = {"PRIVACY_GATEWAY_STORE_URL": f"file://{tmp_path / store}"}
        done = run_command(tmp_path / data_dir, "ledger", "accept-store", environment=environment)
        return done.returncode, done.stderr

    assert accepted("one", "shared")[0] == 0
    code, message = accepted("two", "shared")
    assert (code, "belongs to another ledger" in message) == (1, True)
    serving = {"PRIVACY_GATEWAY_STORE_URL": f"file://{tmp_path / 'shared'}"}
    assert "belongs to another ledger" in refused_start(tmp_path / "two", LEAN | serving)
    assert accepted("two", "own")[0] == 0
    assert accepted("one", "shared")[0] == 0
