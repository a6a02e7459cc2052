"""The commands `privacy-gateway key`, for the API keys of a tenant, and `privacy-gateway ledger`, for the ledger."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from service.cli.common import AsJson, DataDir, destination, load_settings, print_json, require_ledger, with_parts

if TYPE_CHECKING:
    from core.ledger.archive.archiver import ArchiveRound
    from core.ledger.archive.restore import RestoreReport
    from core.ledger.hash_chain.audit import LedgerAudit
    from core.state.keystore import ApiKey, KeyStore
    from service.config.settings import Settings
    from service.ledger_connection import LedgerParts


key_app = typer.Typer(no_args_is_help=True, help="Create, list, rotate and revoke API keys.")

BY_CLI = "cli"
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", help="Write the key to this file (mode 0600) instead of printing it.")
]
Expires = Annotated[int | None, typer.Option("--expires-s", help="Seconds until the key expires.  [default: never]")]


@key_app.command("create", epilog="Example: privacy-gateway key create acme --role read --label reports")
def key_create(
    tenant: str,
    role: Annotated[
        list[str] | None,
        typer.Option(help="release, read, jobs or admin. May be repeated.  [default: release, read and jobs]"),
    ] = None,
    expires_s: Expires = None,
    label: Annotated[str, typer.Option(help="A name for the key, shown by `key list`.")] = "",
    purpose: Annotated[str, typer.Option(help="What its releases are for.")] = "",
    recipient: Annotated[str, typer.Option(help="Who receives its releases.")] = "",
    key_file: KeyFile = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Create a further API key of a tenant."""
    from core.state.keystore import DEFAULT_ROLES, KeyRole

    unknown = set(role or ()) - set(KeyRole)
    if unknown:
        raise typer.BadParameter(f"the roles are {', '.join(KeyRole)}")
    roles = frozenset(map(KeyRole, role)) if role else DEFAULT_ROLES
    words = {"label": label, "purpose": purpose, "recipient": recipient}
    new = _with_keys(data_dir, lambda keys: keys.create(tenant, by=BY_CLI, roles=roles, expires_s=expires_s, **words))
    show_key(tenant, new.key, key_file, as_json)


@key_app.command("list")
def key_list(tenant: str, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List a tenant's keys: id, state, roles, expiry, last use, label."""
    keys = _with_keys(data_dir, lambda keys: keys.list(tenant))
    if as_json:
        from service.tenants.service import key_block

        print_json([key_block(key) for key in keys])
        return
    for key in keys:
        columns = (
            key.key_id,
            _state(key),
            ",".join(sorted(key.roles)),
            f"expires {_time(key.expires_ms)}",
            f"used {_time(key.last_used_ms)}",
            key.label,
        )
        typer.echo("\t".join(columns).rstrip())


@key_app.command("rotate", epilog="Example: privacy-gateway key rotate acme 0123456789abcdef --overlap-s 3600")
def key_rotate(
    tenant: str,
    key_id: str,
    overlap_s: Annotated[int, typer.Option("--overlap-s", help="Seconds until the old key ends.")],
    expires_s: Expires = None,
    key_file: KeyFile = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Create a key with the roles and the label of another one, which ends after the overlap."""
    new = _with_keys(
        data_dir, lambda keys: keys.rotate(tenant, key_id, by=BY_CLI, overlap_s=overlap_s, expires_s=expires_s)
    )
    show_key(tenant, new.key, key_file, as_json)


@key_app.command("revoke")
def key_revoke(tenant: str, key_id: str, data_dir: DataDir = None) -> None:
    """Revoke a key by its id (the 16 digits after `pgw_`)."""
    _with_keys(data_dir, lambda keys: keys.revoke(tenant, key_id, by=BY_CLI))
    typer.echo(f"{key_id}\trevoked")


def _with_keys(data_dir: Path | None, use: Callable[[KeyStore], Awaitable[Any]]) -> Any:
    return with_parts(data_dir, lambda parts: use(parts.keys))


def _state(key: ApiKey) -> str:
    if key.revoked_ms is not None:
        return "revoked"
    return "expired" if key.has_ended(int(datetime.now(UTC).timestamp() * 1000)) else "live"


def _time(at_ms: int | None) -> str:
    return "never" if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


def show_key(tenant: str, key: str, key_file: Path | None, as_json: bool) -> None:
    if key_file is not None:
        from core.files.disk import write_secret

        try:
            write_secret(key_file, f"{key}\n".encode(), replace=True)
        except OSError as error:
            typer.echo(f"error: the key of {tenant} is lost, make another by `key create`: {error}", err=True)
            raise typer.Exit(1) from None
        typer.echo(f"tenant {tenant}: key written to {key_file}")
    elif as_json:
        print_json({"tenant": tenant, "key": key})
    else:
        typer.echo(f"tenant  {tenant}\nkey     {key}\nThe key is shown this once; only its HMAC is stored.")


ledger_app = typer.Typer(no_args_is_help=True, help="Check, seal and export the ledger.")


LedgerId = Annotated[
    str | None, typer.Option("--ledger", help="The id of the archived ledger.  [default: the only one]")
]


@ledger_app.command("audit")
def audit(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Check every seal, every journal entry and every balance. Exits 1 when anything differs."""
    from dataclasses import asdict

    from service.ledger_connection import audit_and_store

    report = with_parts(data_dir, audit_and_store, trusted=False)
    if as_json:
        print_json({"ok": report.ok, **asdict(report)})
    else:
        _show_audit(report)
    raise typer.Exit(0 if report.ok else 1)


def _show_audit(report: LedgerAudit) -> None:
    for tenant in report.tenants:
        found = "agrees" if tenant.ok else "DIFFERS"
        typer.echo(f"{tenant.tenant}: {tenant.accounts} accounts, {tenant.entries} journal entries: {found}")
        for difference in tenant.differences:
            typer.echo(
                f"  {difference.account} {difference.counter}: journal {difference.journal}, counter {difference.found}"
            )
        for gap in tenant.gaps:
            typer.echo(f"  journal entry {gap} is missing")
        for fault in tenant.faults:
            typer.echo(f"  {fault}")
    typer.echo(f"{report.seals} seals: {'DIFFER' if report.faults else 'agree'}")
    for fault in report.faults:
        typer.echo(f"  {fault}")


@ledger_app.command("seal")
def seal(data_dir: DataDir = None) -> None:
    """Write a seal now, for example before a backup. A running gateway seals by itself."""
    number = with_parts(data_dir, lambda parts: parts.sealer.seal(always=True))
    typer.echo(f"seal {number}")


@ledger_app.command("archive")
def archive(data_dir: DataDir = None) -> None:
    """Copy what is new to the blob store now, and remove old entries. A gateway does so itself where ARCHIVE is on."""
    found = with_parts(data_dir, _archive)
    typer.echo(f"{found.copied} entries copied, {found.trimmed} removed from Redis")


async def _archive(parts: LedgerParts) -> ArchiveRound:
    await parts.sealer.seal()
    return await parts.archiver.run_once()


@ledger_app.command("restore")
def restore(
    from_archive: Annotated[
        bool, typer.Option("--from-archive", help="Rebuild the ledger in an empty Redis from the archive.")
    ] = False,
    ledger: LedgerId = None,
    data_dir: DataDir = None,
) -> None:
    """Rebuild a lost ledger from its archive. Read docs/operating/ledger.md first."""
    if not from_archive:
        typer.echo("error: name the source: --from-archive", err=True)
        raise typer.Exit(1)
    settings = load_settings(data_dir)
    require_ledger(settings, lost=True)
    found = with_parts(data_dir, lambda parts: _restore(settings, parts, ledger), trusted=False, creates=True)
    typer.echo(f"{found.tenants} tenants restored from {found.entries} entries, up to seal {found.seal}")
    typer.echo(f"{found.spent_holds} open holds were spent")
    if found.lost_subject_holds:
        typer.echo(f"of them, {found.lost_subject_holds} had debited accounts of subjects by amounts that are unknown")
    typer.echo(
        "Not restored: API keys, packs, fine-tuned models, artifacts, jobs, stored answers and idempotency keys, kept\n"
        "conversations, alerts, the log of administrative actions. Only Redis had the keys of the files of packs,\n"
        "models and artifacts: these files in the blob store are unreadable now, and gateways remove them after a day."
    )
    typer.echo("No gateway starts before `ledger accept-restore`: docs/operating/ledger.md")


async def _restore(settings: Settings, parts: LedgerParts, ledger: str | None) -> RestoreReport:
    from core.ledger.archive.restore import Restore
    from service.ledger_connection import archive_of

    store = await archive_of(settings, ledger)
    return await Restore(parts.client, parts.master_key, store, parts.epoch_file).run()


@ledger_app.command("gateways")
def gateways(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the gateways that are present: id, machine, version, start, and which one does the duties."""
    rows = with_parts(data_dir, _gateways, trusted=False)
    if as_json:
        print_json(rows)
        return
    for row in rows:
        duties = "duties" if row["duties"] else ""
        shown = (row["id"], row["name"], row["version"], _time(row["started_ms"]), duties)
        typer.echo("\t".join(map(str, shown)).rstrip())


async def _gateways(parts: LedgerParts) -> list[dict[str, Any]]:
    from core.state.gateways import Presences, lease_holder

    holder = await lease_holder(parts.client)
    return [
        {
            "id": one.gateway_id,
            "name": one.name,
            "version": one.version,
            "started_ms": one.started_ms,
            "duties": one.gateway_id == holder,
        }
        for one in await Presences(parts.client).listed()
    ]


@ledger_app.command("export", epilog="Example: privacy-gateway ledger export --tenant acme --output journal.jsonl")
def export(
    tenant: Annotated[str | None, typer.Option(help="This tenant alone.  [default: all]")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write to this file.  [default: standard output]", dir_okay=False)
    ] = None,
    actions: Annotated[
        bool, typer.Option("--actions", help="Write the log of administrative actions instead.")
    ] = False,
    data_dir: DataDir = None,
) -> None:
    """Write journals and seals as JSON lines, for auditors. Exits 1 if a sealed entry was changed.

    With --actions also if an entry of that log was changed, inserted or removed.
    """
    with destination(output) as file:
        write = partial(_write_actions, file=file) if actions else partial(_write, tenant=tenant, file=file)
        ok = with_parts(data_dir, write, trusted=False)
    raise typer.Exit(0 if ok else 1)


async def _write(parts: LedgerParts, tenant: str | None, file: BinaryIO) -> bool:
    import orjson

    from core.ledger.hash_chain.export import export_ledger

    line: dict[str, Any] = {}
    async for line in export_ledger(
        parts.client, parts.master_key, parts.epoch_file, tenant=tenant, archive=parts.archive
    ):
        file.write(orjson.dumps(line) + b"\n")
    return bool(line["ok"])  # the last line is the summary


async def _write_actions(parts: LedgerParts, file: BinaryIO) -> bool:
    """Write the log, and check its hash chain up to the entry that the last seal covers."""
    from dataclasses import asdict

    import orjson

    from core.errors import LedgerNotTrusted
    from core.ledger.hash_chain.admin_log import LogCheck
    from core.ledger.hash_chain.chain import SealChain

    faults: list[str] = []
    sealed = None
    try:
        last = (await SealChain(parts.client, parts.master_key).head()).seal
        sealed = None if last is None else last.admin
    except LedgerNotTrusted as error:
        faults.append(str(error))
    check = LogCheck(sealed)
    async for entry in parts.keys.log.entries():
        check.add(entry)
        file.write(orjson.dumps(asdict(entry)) + b"\n")
    check.end()
    for fault in [*faults, *check.faults]:
        typer.echo(f"error: {fault}", err=True)
    return not faults and not check.faults


@ledger_app.command("verify-statement")
def verify_statement(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True)], data_dir: DataDir = None
) -> None:
    """Check that a statement of `GET /budget/statement` is this gateway's and unchanged. Exits 1 if it is not."""
    from service.config.reading import load_master_key
    from service.tenants.statement import is_genuine

    settings = load_settings(data_dir)
    require_ledger(settings)
    try:
        genuine = is_genuine(file.read_bytes(), load_master_key(settings))
    except (OSError, ValueError) as error:  # of the file, or of the master key
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo("genuine" if genuine else "error: not a statement of this gateway, or changed", err=not genuine)
    raise typer.Exit(0 if genuine else 1)


@ledger_app.command("accept-restore")
def accept_restore(
    nothing_was_released_since: Annotated[
        bool,
        typer.Option(
            "--nothing-was-released-since", help="Say that no release left this gateway after the copy was made."
        ),
    ] = False,
    data_dir: DataDir = None,
) -> None:
    """Take over a Redis that holds an older state than the epoch file. Read docs/operating/ledger.md first."""
    if not nothing_was_released_since:
        typer.echo(
            "error: only with --nothing-was-released-since. If releases left after the copy was made, their budget is "
            "not in it: docs/operating/ledger.md says what to do then.",
            err=True,
        )
        raise typer.Exit(1)
    number = with_parts(data_dir, _accept_restore, trusted=False)
    if number is None:
        typer.echo("nothing to accept: Redis continues from the epoch file")
    else:
        typer.echo(f"accepted; seal {number} says so. Restart the gateway.")


async def _accept_restore(parts: LedgerParts) -> int | None:
    number = await parts.sealer.accept_restore()
    if number is not None:
        details = {"seal": number}
        await parts.keys.log.append(by=BY_CLI, action="ledger.accept-restore", target="ledger", details=details)
    return number


@ledger_app.command("accept-store")
def accept_store(data_dir: DataDir = None) -> None:
    """Make the blob store of these settings that of the ledger. Read docs/operating/blob-store.md first."""
    settings = load_settings(data_dir)

    async def accepted(parts: LedgerParts) -> None:
        from core.blobs.options import opened_store
        from core.redis import identity

        await identity.accept_store(parts.client, opened_store(settings, settings.data_dir))
        await parts.keys.log.append(by=BY_CLI, action="ledger.accept-store", target="ledger")

    with_parts(data_dir, accepted, creates=True)
    typer.echo("accepted. Start every gateway with this store.")
