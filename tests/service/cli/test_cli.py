"""The `privacy-gateway` command, alone on a data directory."""

import json
from importlib.metadata import version
from pathlib import Path

from command_kit import run_command
from table_kit import rows


def test_a_data_directory_without_a_gateway(tmp_path: Path) -> None:
    data = tmp_path / "data"
    created = run_command(data, "tenant", "create", "acme", "--epsilon", "10", "--limit", "token=5,1e-6", "--json")
    assert created.returncode == 0, created.stderr
    assert json.loads(created.stdout)["tenant"] == "acme"
    assert json.loads(created.stdout)["key"].startswith("pgw_")

    accounts = json.loads(run_command(data, "budget", "show", "acme", "--json").stdout)["accounts"]
    limits = {account["unit"]: account["limit"] for account in accounts}
    assert limits["sentence"] == {"epsilon": 10.0, "delta": 0.0}
    assert limits["token"] == {"epsilon": 5.0, "delta": 1e-6}

    again = run_command(data, "tenant", "create", "acme", "--epsilon", "10")
    assert again.returncode == 1
    assert "exists" in again.stderr
    assert "acme" in run_command(data, "tenant", "list").stdout
    assert run_command(data, "ledger", "audit").returncode == 0


def test_what_cannot_be_is_said_in_one_line(tmp_path: Path) -> None:
    for arguments in rows("""
        tenant | create | Bad Name | --epsilon | 1 || tenant | create | ok | --epsilon | -1
        tenant | create | ok | --epsilon | nan || tenant | create | ok | --epsilon | 1 | --limit | paragraph=1
        budget | show | nobody || key | revoke | nobody | 0123456789abcdef
    """):
        failed = run_command(tmp_path / "data", *arguments)
        assert failed.returncode != 0, arguments
        assert "Traceback" not in failed.stderr


def test_a_misspelt_folder_is_no_ledger_and_none_is_made(tmp_path: Path) -> None:
    external = {"PRIVACY_GATEWAY_REDIS_URL": "redis://127.0.0.1:1/0"}
    statement = f"ledger verify-statement {__file__}"
    restore = "ledger restore --from-archive"
    for command in ("ledger audit", "tenant list", "budget show acme", "ledger export", statement, restore):
        for settings in ({}, external):
            failed = run_command(tmp_path / "typo", *command.split(), environment=settings)
            assert failed.returncode == 1, command
            assert "typo" in failed.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_master_key_that_cannot_be_used_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "redis").mkdir()
    (tmp_path / "master.key").write_text("others can read it")
    (tmp_path / "master.key").chmod(0o644)
    for command in ("tenant list", f"ledger verify-statement {__file__}"):
        failed = run_command(tmp_path, *command.split())
        assert (failed.returncode, failed.stderr.count("\n")) == (1, 1), command
        assert "master.key must be readable by its owner only" in failed.stderr


def test_help_and_version_are_where_they_are_looked_for(tmp_path: Path) -> None:
    assert run_command(tmp_path, "--version").stdout.strip() == version("privacy-gateway")
    shown = run_command(tmp_path, "tenant", "create", "-h").stdout
    assert "Example: privacy-gateway tenant create" in shown
