"""The `privacy-gateway` command. It can run beside a gateway that uses the same data directory."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from decimal import Decimal, InvalidOperation
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.common import (
    AsJson,
    ConfigFile,
    DataDir,
    from_shell,
    load_settings,
    print_json,
    use_config_file,
    with_parts,
)
from service.cli.ledger import BY_CLI, KeyFile, key_app, ledger_app, show_key

if TYPE_CHECKING:
    from core.accounting.certificate import PlanCertificate
    from core.accounting.events import PrivacyEvent, Unit
    from core.ledger.transitions import Ledger
    from core.state.keystore import KeyStore, NewKey
    from service.ledger_connection import LedgerParts
    from service.tenants.service import UnitLimit


model_app = typer.Typer(no_args_is_help=True, help="Fetch model checkpoints of a hub.")


@model_app.callback()
def _group() -> None:
    """Typer needs a callback to keep a single command as a subcommand."""


@model_app.command("fetch")
def fetch_checkpoint(
    name: Annotated[str, typer.Argument(metavar="ORG/NAME@COMMIT", help="The commit by its 40 hexadecimal digits.")],
    data_dir: DataDir = None,
) -> None:
    """Download a checkpoint's safetensors weights, tokeniser and configuration into the data directory."""
    from service.config.data_dir import fetch
    from service.config.settings import Settings

    try:  # the gateway's settings are not loaded: they may name the checkpoint that is to be downloaded
        typer.echo(fetch(data_dir or Settings.model_fields["data_dir"].default, name))
    except (ValueError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None


app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
config_app = typer.Typer(no_args_is_help=True, help="Check and show the settings.")
tenant_app = typer.Typer(no_args_is_help=True, help="Open, list, suspend and close tenants.")
budget_app = typer.Typer(no_args_is_help=True, help="Show budgets.")
app.add_typer(config_app, name="config")
app.add_typer(tenant_app, name="tenant")
app.add_typer(key_app, name="key")
app.add_typer(budget_app, name="budget")
app.add_typer(ledger_app, name="ledger")
app.add_typer(model_app, name="model")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("privacy-gateway"))
        raise typer.Exit


@app.callback(help=__doc__)
def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """The options of the command itself."""


@app.command(epilog="Example: privacy-gateway serve --port 8080 --data-dir .data")
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.  [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.  [default: 8000]")] = None,
    processes: Annotated[
        int | None, typer.Option(help="Gateways that share the port, each with its own workers.  [default: 1]")
    ] = None,
    sign_in: Annotated[
        Path | None,
        typer.Option(
            "--sign-in", help="Print a link that signs in on this machine, once, with the API key in this file."
        ),
    ] = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Start the gateway; stays in the foreground."""
    use_config_file(config)
    given = {"host": host, "port": port, "processes": processes}
    settings = load_settings(data_dir, **{name: value for name, value in given.items() if value is not None})
    from gpu_workers.fork_server import start_fork_server
    from service.config.worker_options import preloads

    start_fork_server(preloads(settings))  # it imports for the workers while this process imports for itself
    if settings.processes > 1:
        if sign_in is not None:
            raise typer.BadParameter("a link to sign in is of one gateway: leave out --sign-in or --processes")
        from service.processes.supervisor import supervise

        supervise(settings)
    from service.serve import run

    run(settings, sign_in=sign_in)


@config_app.command("check")
def config_check(config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Check the settings and the files of policies and presets that they name. Exits 1 and names every problem."""
    use_config_file(config)
    settings = load_settings(data_dir)
    from core.text.mask_words import AllowLists
    from service.openai.presets import load_presets
    from service.processes.supervisor import check_processes
    from service.sanitize.policies import load_policies

    def check_policies() -> None:
        load_policies(settings, lists=AllowLists(settings.allow_lists_dir).names)

    problems = []
    for check in (
        lambda: load_presets(settings),
        check_policies,
        lambda: check_processes(settings) if settings.processes > 1 else None,
    ):
        try:
            check()
        except (ValueError, OSError) as error:
            problems.append(str(error))
    for problem in problems:
        typer.echo(f"error: {problem}", err=True)
    if problems:
        raise typer.Exit(1)
    typer.echo("the settings are good")


@config_app.command("show")
def config_show(
    every: Annotated[bool, typer.Option("--all", help="Show also the settings that have their defaults.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Show the settings that are in use, and where each comes from. Secrets are hidden."""
    use_config_file(config)
    settings = load_settings(data_dir)
    from service.config.reading import DEFAULT, shown

    rows = [row for row in shown(settings, **from_shell(data_dir)) if every or row.source != DEFAULT]
    if as_json:
        print_json([{"name": row.name, "value": row.value, "source": row.source} for row in rows])
        return
    for row in rows:
        typer.echo(f"{row.name}\t{json.dumps(row.value)}\t{row.source}")


@tenant_app.command("create", epilog="Example: privacy-gateway tenant create acme --epsilon 1000 --key-file acme.key")
def tenant_create(
    name: str,
    epsilon: Annotated[str, typer.Option(help="Limit of every account, in epsilon.")],
    delta: Annotated[str, typer.Option(help="Limit of every account, in delta.")] = "0",
    basic_delta: Annotated[
        str | None,
        typer.Option(
            help="Part of delta for basic composition, which takes releases with a delta of their own."
            "  [default: the first release decides]"
        ),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(help="UNIT=EPS[,DELTA[,BASIC_DELTA]]: another limit for one unit. May be repeated."),
    ] = None,
    plan: Annotated[
        list[str] | None,
        typer.Option(
            help="MECHANISM=EPS: admit only this, as often as is certified to fit the limit. May be repeated."
        ),
    ] = None,
    subject_epsilon: Annotated[
        str | None, typer.Option(help="Give each subject its own accounts at this epsilon (subject mode).")
    ] = None,
    key_file: KeyFile = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Open a tenant with one account for each unit; print its first API key."""
    from service.domains.store import DomainStore
    from service.files.stored import stored_files
    from service.tenants.service import TenantTerms, open_tenant

    terms = TenantTerms(
        name=name,
        epsilon=_number(epsilon),
        delta=_number(delta),
        basic_delta=None if basic_delta is None else _number(basic_delta),
        limits=dict(_unit_limit(text) for text in limit or []),
        plans=dict(_plan(text) for text in plan or []),
        subject_epsilon=None if subject_epsilon is None else _number(subject_epsilon),
    )
    settings = load_settings(data_dir)

    async def opened(parts: LedgerParts) -> NewKey:
        domains = DomainStore(stored_files(settings, parts.client, parts.master_key), settings.domain_packs_dir)
        return await open_tenant(parts.ledger, parts.keys, terms, certify=_certify, domains=domains, by=BY_CLI)

    key = with_parts(data_dir, opened, creates=True)
    show_key(name, key.key, key_file, as_json)


@tenant_app.command("limit", epilog="Example: privacy-gateway tenant limit acme sentence 500 --reason audit")
def tenant_limit(
    tenant: str,
    unit: str,
    epsilon: str,
    reason: Annotated[str, typer.Option(help="Why, for the log of administrative actions.")] = "",
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Raise or lower what the account of UNIT may spend, up to the epsilon that it was opened with."""
    from core.accounting.events import Unit
    from service.releases.answers import account_block
    from service.tenants.service import set_limit

    if unit not in set(Unit):
        raise typer.BadParameter(f"the units are {', '.join(Unit)}")
    number = _number(epsilon)
    state = _with_ledger(
        data_dir, lambda ledger, keys: set_limit(ledger, keys.log, tenant, Unit(unit), number, by=BY_CLI, reason=reason)
    )
    block = account_block(state)
    if as_json:
        print_json(block)
        return
    guarantee, left = block["limit"]["epsilon"], block["remaining"]["epsilon"]
    typer.echo(f"{block['account']} may spend {number} of {guarantee:g}; {left:g} is left")


@tenant_app.command("list")
def tenant_list(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the tenants."""
    tenants = _with_ledger(data_dir, lambda ledger, _: ledger.tenants())
    if as_json:
        print_json([{"tenant": each.name, "mode": each.mode.value, "state": each.state.value} for each in tenants])
        return
    for tenant in tenants:
        typer.echo(f"{tenant.name}\t{tenant.mode.value} mode\t{tenant.state.value}")


Reason = Annotated[str, typer.Option(help="Why, for the log of administrative actions.")]


@tenant_app.command("suspend")
def tenant_suspend(tenant: str, reason: Reason, data_dir: DataDir = None) -> None:
    """Let the keys of a tenant only read: nothing more is released."""
    _change_state(data_dir, tenant, "suspended", reason)


@tenant_app.command("resume")
def tenant_resume(tenant: str, reason: Reason, data_dir: DataDir = None) -> None:
    """End the suspension of a tenant."""
    _change_state(data_dir, tenant, "active", reason)


@tenant_app.command("close")
def tenant_close(
    tenant: str,
    reason: Reason,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    data_dir: DataDir = None,
) -> None:
    """End a tenant for good: no key works, and a running gateway removes its data. The journal stays."""
    if not yes:
        typer.confirm(f"Close {tenant}? Its keys and data are removed, and it is not opened again", abort=True)
    _change_state(data_dir, tenant, "closed", reason)


def _change_state(data_dir: Path | None, tenant: str, word: str, reason: str) -> None:
    from service.tenants.closing import change_state, wanted_state

    to = wanted_state(word)
    found = _with_ledger(
        data_dir, lambda ledger, keys: change_state(ledger, keys.log, tenant, to, by=BY_CLI, reason=reason)
    )
    typer.echo(f"{found.name}\t{found.state.value}")


@budget_app.command("show", epilog="Example: privacy-gateway budget show acme")
def budget_show(tenant: str, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Show every account of a tenant."""
    from service.releases.answers import account_block, block_with_history

    states = _with_ledger(data_dir, lambda ledger, _: ledger.accounts(tenant))
    if as_json:
        display_delta = load_settings(data_dir).display_delta
        print_json({"accounts": [block_with_history(state, display_delta) for state in states]})
        return
    blocks = [account_block(state) for state in states]
    columns = ("limit", "committed", "reserved", "remaining")
    width = max(len(block["account"]) for block in blocks)
    typer.echo("account".ljust(width) + "".join(column.rjust(14) for column in columns))
    for block in blocks:
        current = block.get("current_limit")
        note = f"  (current limit {current['epsilon']:g})" if current else ""
        amounts = (block["limit"], block["committed"], block["reserved"], block["remaining"])
        typer.echo(block["account"].ljust(width) + "".join(f"{each['epsilon']:14g}" for each in amounts) + note)


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise typer.BadParameter("epsilon and delta are numbers") from None


def _unit_limit(text: str) -> tuple[Unit, UnitLimit]:
    from core.accounting.events import Unit
    from service.tenants.service import UnitLimit

    unit, _, amounts = text.partition("=")
    numbers = [_number(number) for number in amounts.split(",")]
    if unit not in set(Unit) or len(numbers) > 3:
        raise typer.BadParameter(f"a limit is UNIT=EPS[,DELTA[,BASIC_DELTA]]; the units are {', '.join(Unit)}")
    return Unit(unit), UnitLimit(*numbers)


def _plan(text: str) -> tuple[str, Decimal]:
    mechanism, _, epsilon = text.partition("=")
    return mechanism, _number(epsilon)


async def _certify(event: PrivacyEvent, /, *, epsilon_nano: int, delta_femto: int) -> PlanCertificate:
    from core.accounting.certificate import largest_count

    return largest_count(event, epsilon_nano=epsilon_nano, delta_femto=delta_femto)


def _with_ledger(data_dir: Path | None, use: Callable[[Ledger, KeyStore], Awaitable[Any]]) -> Any:
    return with_parts(data_dir, lambda parts: use(parts.ledger, parts.keys))


if __name__ == "__main__":
    app()
