"""`privacy-gateway ledger homes`: on which ledger each tenant lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from service.cli.common import AsJson, DataDir, load_settings, print_json, run_async, warn

if TYPE_CHECKING:
    from service.config.settings import Settings


def homes(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the tenants with the ledgers where they live."""
    found = run_async(lambda: _homes(load_settings(data_dir)))
    if as_json:
        print_json(found)
        return
    for tenant, ledger in found.items():
        typer.echo(f"{tenant}\t{ledger}")


async def _homes(settings: Settings) -> dict[str, str]:
    from service.ledgers import ledgers_access

    async with ledgers_access(settings, left_out=warn) as ledgers:
        return {one.name: await ledgers.homes.home(one.name) for one in await ledgers.front.ledger.tenants()}
