"""The `privacy-gateway` command, run in the process of the test: as the shell runs it, without the start of Python.

`tests/test_wheel.py`, `tests/docs` and the tests of signals run the installed command in a process of its own.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from gateway_kit import clean_environment
from typer.testing import CliRunner

from service.cli.main import app


@dataclass(frozen=True)
class Finished:
    """How a command ended and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def run_command(data_dir: Path | None, *arguments: str, environment: Mapping[str, str] | None = None) -> Finished:
    """Run the command on `data_dir`, beside its gateway or alone. An exception that a shell would show is raised."""
    variables = clean_environment() | dict(environment or {})
    if data_dir is not None:
        variables["PRIVACY_GATEWAY_DATA_DIR"] = str(data_dir)
    with mock.patch.dict(os.environ, variables, clear=True):
        outcome = CliRunner().invoke(app, arguments)
    if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
        raise outcome.exception
    return Finished(outcome.exit_code, outcome.stdout, outcome.stderr)


def refused_settings(data_dir: Path, settings: Mapping[str, str]) -> str:
    """What `serve` says of settings that it refuses as it reads them, before it starts anything; it ends with 1.

    `gateway_kit.refused_start` is for what a start finds later.
    """
    begins = AssertionError("it starts")
    with (
        mock.patch("gpu_workers.fork_server.start_fork_server", side_effect=begins),
        mock.patch("service.processes.supervisor.supervise", side_effect=begins),
        mock.patch("service.serve.run", side_effect=begins),
    ):
        refused = run_command(data_dir, "serve", "--port", "0", environment=settings)
    assert refused.returncode == 1
    return refused.stderr
