"""`privacy-gateway audit`: export and check the log of administrative actions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from service.cli.common import AsJson, DataDir, destination, print_json, with_parts

if TYPE_CHECKING:
    from core.ledger.hash_chain.admin_log import LogCheck
    from service.ledger import LedgerParts

audit_app = typer.Typer(no_args_is_help=True, help="Export and check the log of administrative actions.")


@audit_app.command("export")
def export(
    output: Annotated[
        Path | None, typer.Option(help="Write to this file.  [default: standard output]", dir_okay=False)
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Write the log as JSON lines, oldest first. Exits 1 if an entry was changed, inserted or removed."""
    with destination(output) as file:
        check = with_parts(data_dir, lambda parts: _checked(parts, file), trusted=False)
    for fault in check.faults:
        typer.echo(f"error: {fault}", err=True)
    raise typer.Exit(1 if check.faults else 0)


@audit_app.command("verify")
def verify(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Check the hash chain of the log, and that it reaches the entry that the last seal covers. Exits 1 if not."""
    check = with_parts(data_dir, lambda parts: _checked(parts, None), trusted=False)
    if as_json:
        print_json({"ok": not check.faults, "entries": check.entries, "faults": check.faults})
    else:
        typer.echo(f"{check.entries} entries: {'DIFFER' if check.faults else 'agree'}")
        for fault in check.faults:
            typer.echo(f"  {fault}")
    raise typer.Exit(1 if check.faults else 0)


async def _checked(parts: LedgerParts, file: BinaryIO | None) -> LogCheck:
    from dataclasses import asdict

    import orjson

    from core.errors import LedgerNotTrusted
    from core.ledger.hash_chain.admin_log import LogCheck
    from core.ledger.hash_chain.chain import SealChain

    faults = []
    sealed = None
    try:
        last = (await SealChain(parts.client, parts.master_key).head()).seal
        sealed = None if last is None else last.admin
    except LedgerNotTrusted as error:
        faults.append(str(error))
    check = LogCheck(sealed)
    check.faults += faults
    async for entry in parts.keys.log.entries():
        check.add(entry)
        if file is not None:
            file.write(orjson.dumps(asdict(entry)) + b"\n")
    check.end()
    return check
