"""`privacy-gateway ledger homes`, `ledger move` and `ledger retire`: on which ledger a tenant lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.common import AsJson, DataDir, load_settings, print_json, run_async, warn
from service.cli.keys import BY_CLI

if TYPE_CHECKING:
    from core.ledger.move.sides import LedgerSide
    from core.ledger.move.tenant_move import MoveSummary
    from service.config.settings import Settings
    from service.ledgers import Ledgers


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


def move(
    tenant: str,
    to: Annotated[str, typer.Option(help="The ledger where the tenant will live.")],
    wait_s: Annotated[float, typer.Option(min=0, help="How long to wait for open holds and unfinished jobs.")] = 600.0,
    abort: Annotated[
        bool,
        typer.Option("--abort", help="Give up a move to this ledger that did not end: serve the tenant as before."),
    ] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Move a tenant to another ledger, or continue a move that did not end. Read docs/operating/several-ledgers.md.

    New releases of the tenant are refused meanwhile. The URLs in the settings must be those of the operator's user.
    """
    summary = run_async(lambda: _move(load_settings(data_dir), tenant, to, wait_s=wait_s, abort=abort))
    if summary is None:
        typer.echo(f"{tenant} is served on its ledger as before")
    elif as_json:
        from dataclasses import asdict

        print_json(asdict(summary))
    else:
        typer.echo(
            f"{summary.tenant} lives on {summary.target}: {summary.entries} entries, {summary.accounts} accounts, "
            f"{summary.keys} keys; refused for {summary.closed_s:.1f} s"
        )


async def _move(settings: Settings, tenant: str, to: str, *, wait_s: float, abort: bool) -> MoveSummary | None:
    from core.errors import LedgerUnavailable
    from core.ledger.homes import REFRESH_S
    from core.ledger.move.tenant_move import TenantMove
    from core.move_errors import MoveRefused
    from service.ledgers import ledgers_access

    unusable: list[str] = []
    async with ledgers_access(settings, left_out=unusable.append) as ledgers:
        if unusable:
            raise LedgerUnavailable("; ".join(unusable))
        sides = _sides(ledgers)
        if to not in sides:
            raise MoveRefused(f"The settings have no ledger {to}.")
        source = await _source(ledgers, sides, tenant, to)
        work = TenantMove(
            tenant,
            source,
            sides[to],
            ledgers.homes,
            ledgers.main.master_key,
            wait_s=wait_s,
            settle_s=2 * REFRESH_S,
            report=lambda step: typer.echo(step, err=True),
        )

        async def logged(action: str, **details: Any) -> None:
            given = {"from": source.name, "to": to, **details}
            await ledgers.main.keys.log.append(by=BY_CLI, action=action, target=tenant, details=given)

        if abort:
            await logged("ledger.move-abort")
            await work.abort()
            return None
        await logged("ledger.move")
        summary = await work.run()
        await logged("ledger.moved", entries=summary.entries)
        return summary


def retire(
    tenant: str,
    at: Annotated[str, typer.Option(help="The ledger whose copy of the tenant is given up.")],
    wait_s: Annotated[float, typer.Option(min=0, help="How long to wait for open holds and unfinished jobs.")] = 600.0,
    data_dir: DataDir = None,
) -> None:
    """Give up one copy of a tenant that is in use on two ledgers. Read docs/operating/several-ledgers.md.

    Refused if the copy has charged anything that the other one lacks. The URLs in the settings must be those of the
    operator's user.
    """
    kept = run_async(lambda: _retire(load_settings(data_dir), tenant, at, wait_s=wait_s))
    typer.echo(f"{tenant} lives on {kept}; its copy on {at} is retired. Restart the gateways.")


async def _retire(settings: Settings, tenant: str, at: str, *, wait_s: float) -> str:
    from core.errors import LedgerUnavailable
    from core.ledger.homes import REFRESH_S
    from core.ledger.move.retirement import Retirement
    from core.ledger.move.sides import tenant_state
    from core.ledger.names import check_tenant
    from core.move_errors import MoveRefused
    from service.ledgers import ledgers_access

    unusable: list[str] = []
    async with ledgers_access(settings, left_out=unusable.append) as ledgers:
        if unusable:
            raise LedgerUnavailable("; ".join(unusable))
        sides = _sides(ledgers)
        if at not in sides:
            raise MoveRefused(f"The settings have no ledger {at}.")
        check_tenant(tenant)
        others = [side for side in sides.values() if side.name != at]
        kept = [side for side in others if (await tenant_state(side.client, tenant)).is_active]
        if len(kept) != 1:
            raise MoveRefused(f"The tenant is in use on {len(kept)} ledgers beside {at}. One of them is to be kept.")
        details = {"ledger": at, "kept": kept[0].name}
        log = ledgers.main.keys.log
        await log.append(by=BY_CLI, action="ledger.retire", target=tenant, details=details)
        work = Retirement(
            tenant,
            sides[at],
            kept[0],
            ledgers.homes,
            ledgers.main.master_key,
            wait_s=wait_s,
            settle_s=2 * REFRESH_S,
        )
        shared = await work.run()
        await log.append(by=BY_CLI, action="ledger.retired", target=tenant, details={**details, "entries": shared})
        return kept[0].name


def _sides(ledgers: Ledgers) -> dict[str, LedgerSide]:
    from core.ledger.move.sides import LedgerSide

    return {one.name: LedgerSide(one.name, one.client, one.sealer, one.epoch_file, one.archive) for one in ledgers.each}


async def _source(ledgers: Ledgers, sides: dict[str, LedgerSide], tenant: str, to: str) -> LedgerSide:
    """The ledger that the tenant leaves: its home, or, if an earlier run has written the new home, the one before."""
    from core.ledger.move.sides import tenant_state
    from core.move_errors import MoveRefused

    home = await ledgers.homes.home(tenant)
    if home != to:
        return sides[home]
    for side in sides.values():
        if side.name != to and (await tenant_state(side.client, tenant)).away == to:
            return side
    raise MoveRefused(f"The tenant lives on the ledger {to}.")
