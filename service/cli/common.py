"""Shared by the commands: options, settings, and access to the ledger."""

from __future__ import annotations

import asyncio
import contextlib
import json
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
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def load_settings(data_dir: Path | None, **given: Any) -> Settings:
    from pydantic import ValidationError

    from service.config.settings import Settings

    try:
        return Settings(**given) if data_dir is None else Settings(data_dir=data_dir, **given)
    except ValidationError as error:
        for entry in error.errors(include_input=False, include_url=False, include_context=False):
            place = f"setting {'.'.join(map(str, entry['loc'])).upper()}: " if entry["loc"] else ""
            typer.echo(f"error: {place}{entry['msg']}", err=True)
        raise typer.Exit(1) from None


def with_parts(data_dir: Path | None, use: Callable[[LedgerParts], Awaitable[Any]], *, trusted: bool = True) -> Any:
    """Run `use` with the ledger of a running gateway, or with a server that is started for the command.

    Ends the command with 1 and one line for an error of the gateway.
    """
    from core.errors import GatewayError
    from service.ledger_connection import ledger_access

    async def connect_and_use() -> Any:
        async with ledger_access(load_settings(data_dir), trusted=trusted) as parts:
            return await use(parts)

    try:
        return asyncio.run(connect_and_use())
    except (GatewayError, ValueError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None


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
