"""Shared by the commands: options, settings, and access to the ledger."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

if TYPE_CHECKING:
    from service.config.settings import Settings
    from service.ledger_connection import LedgerParts

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", envvar="PRIVACY_GATEWAY_DATA_DIR", help="Keys and the embedded ledger.  [default: .data]"
    ),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="Configuration file (TOML).  [default: PRIVACY_GATEWAY_CONFIG_FILE]")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def load_settings(data_dir: Path | None, **given: Any) -> Settings:
    """The settings, of which the command line gives `data_dir` and `given`. Ends the command with 1 and a line for each
    problem."""
    from service.config.reading import read_settings
    from service.config.settings import SettingsRefused

    try:
        return read_settings(**from_shell(data_dir), **given)
    except SettingsRefused as refused:
        for problem in refused.problems:
            typer.echo(f"error: {problem}", err=True)
        raise typer.Exit(1) from None


def from_shell(data_dir: Path | None) -> dict[str, Any]:
    """`data_dir` as a setting of the command line, unless it is that of the environment, which `DataDir` reads too."""
    is_of_environment = data_dir is None or os.environ.get("PRIVACY_GATEWAY_DATA_DIR") == str(data_dir)
    return {} if is_of_environment else {"data_dir": data_dir}


def use_config_file(path: Path | None) -> None:
    """Let this process, and those that it starts, read their settings from the file."""
    if path is not None:
        os.environ["PRIVACY_GATEWAY_CONFIG_FILE"] = str(path)


def with_parts(
    data_dir: Path | None,
    use: Callable[[LedgerParts], Awaitable[Any]],
    *,
    trusted: bool = True,
    creates: bool = False,
) -> Any:
    """Run `use` with the ledger of a running gateway, or with a server that is started for the command.

    Ends the command with 1 and one line for an error of the gateway, and where there is no ledger unless it `creates`
    one: a misspelt folder would otherwise show an empty ledger that is intact.
    """
    from core.errors import GatewayError
    from service.ledger_connection import ledger_access

    settings = load_settings(data_dir)
    if not creates:
        require_ledger(settings)

    async def connect_and_use() -> Any:
        async with ledger_access(settings, trusted=trusted) as parts:
            return await use(parts)

    try:
        return asyncio.run(connect_and_use())
    except (GatewayError, ValueError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None


def require_ledger(settings: Settings, *, lost: bool = False) -> None:
    """End the command with 1 where the data directory has no master key, or no ledger and the settings name no other:
    the command would make them. One that is `lost` may be missing."""
    has_key = settings.master_key is not None or (settings.data_dir / "master.key").exists()
    has_ledger = lost or settings.redis_url is not None or (settings.data_dir / "redis").is_dir()
    if not has_key or not has_ledger:
        typer.echo(
            f"error: there is no ledger in {settings.data_dir}. `privacy-gateway serve` and `tenant create` make one; "
            "--data-dir or PRIVACY_GATEWAY_DATA_DIR names the folder of another.",
            err=True,
        )
        raise typer.Exit(1)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=None if isinstance(value, dict) and "key" in value else 2))


@contextlib.contextmanager
def destination(output: Path | None) -> Iterator[BinaryIO]:
    """The file that a command writes to; standard output without one."""
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with output.open("wb") as file:
            yield file
    except OSError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
