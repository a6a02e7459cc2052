"""`privacy-gateway key`: create, list, rotate and revoke the API keys of a tenant."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.common import AsJson, DataDir, print_json, with_parts

if TYPE_CHECKING:
    from core.state.keystore import ApiKey, KeyStore

key_app = typer.Typer(no_args_is_help=True, help="Create, list, rotate and revoke API keys.")

BY_CLI = "cli"
KeyFile = Annotated[
    Path | None, typer.Option("--key-file", help="Write the key to this file (mode 0600) instead of printing it.")
]
Expires = Annotated[int | None, typer.Option("--expires-s", help="Seconds until the key expires.  [default: never]")]


@key_app.command("create")
def key_create(
    tenant: str,
    role: Annotated[
        list[str] | None,
        typer.Option(help="release, read, jobs or admin. May be repeated.  [default: release, read and jobs]"),
    ] = None,
    expires_s: Expires = None,
    label: Annotated[str, typer.Option(help="A name for the key, shown by `key list`.")] = "",
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
    new = _with_keys(
        data_dir, lambda keys: keys.create(tenant, by=BY_CLI, roles=roles, expires_s=expires_s, label=label)
    )
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


@key_app.command("rotate")
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
