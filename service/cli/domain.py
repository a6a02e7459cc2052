"""`privacy-gateway domain`: build, list and remove domain packs, without a gateway or beside one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpu_workers.domains.spec import STEPS_MAX, STEPS_MIN
from service.cli.common import AsJson, DataDir, draw_progress, end_progress, load_settings, print_json, with_parts

if TYPE_CHECKING:
    from gpu_workers.jobs.messages import Failed, JobOrder, Succeeded
    from service.files.stored import StoredFiles
    from service.ledger import LedgerParts

domain_app = typer.Typer(no_args_is_help=True, help="Build, list and remove domain packs.")

Tenant = Annotated[str | None, typer.Option(help="The tenant whose domain it is.  [default: a shared domain]")]
Shared = Annotated[bool, typer.Option("--shared", help="A domain that serves every tenant (the default).")]


@domain_app.command("build")
def build(
    corpus: Annotated[Path, typer.Option(help="Public documents as JSON lines: text, sentences or embeddings.")],
    name: Annotated[str, typer.Option(help="The domain's name.")],
    tenant: Tenant = None,
    shared: Shared = False,
    source: Annotated[str, typer.Option(help="Where the documents are from; stands on the card.")] = "not stated",
    licence: Annotated[str, typer.Option(help="Their licence; stands on the card.")] = "not stated",
    steps: Annotated[
        int | None,
        typer.Option(min=STEPS_MIN, max=STEPS_MAX, help="Of each training of the codes, at most.  [default: 600]"),
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Build a domain pack in the foreground. The same command resumes a stopped build."""
    import asyncio

    from core.errors import GatewayError
    from core.ledger.stored_files import DOMAINS
    from gpu_workers.jobs.messages import Succeeded

    settings = load_settings(data_dir)
    try:
        owner = _owner(tenant, shared)
        from service.domains.foreground import prepared

        fields = {"name": name, "source": source, "licence": licence, **({} if steps is None else {"steps": steps})}
        with prepared(settings, owner, corpus, fields) as (order, pack):
            outcome = asyncio.run(_watched(order))
            if isinstance(outcome, Succeeded):
                files = {suffix: pack.with_suffix(suffix) for suffix in (".safetensors", ".md")}
                _with_files(data_dir, lambda stored: stored.put(owner, DOMAINS, name, files))
                _show(outcome.result, as_json)
                return
            problem = outcome.problem
            place = f" (line {problem.line})" if problem.line is not None else ""
            typer.echo(f"error: {problem.reason}: {problem.detail}{place}", err=True)
    except KeyboardInterrupt:
        typer.echo("stopped; the same command resumes the build", err=True)
    except (GatewayError, ValueError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
    raise typer.Exit(1)


@domain_app.command("list")
def list_domains(tenant: Tenant = None, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the domains that a tenant can name, or the shared and installed ones."""
    from service.domains.store import Domains

    packs_dir = load_settings(data_dir).domain_packs_dir
    rows = _with_files(data_dir, lambda stored: _visible(Domains(stored, packs_dir), tenant))
    if as_json:
        print_json(rows)
        return
    for row in rows:
        typer.echo(f"{row['name']}\t{row['scope']}\t{_facts(row)}")


@domain_app.command("remove")
def remove(name: str, tenant: Tenant = None, shared: Shared = False, data_dir: DataDir = None) -> None:
    """Delete a domain and its card."""
    from service.domains.store import Domains

    owner = _owner(tenant, shared)
    _with_files(data_dir, lambda stored: Domains(stored, None).remove(owner, name))
    typer.echo(f"{name}\tremoved")


def _with_files(data_dir: Path | None, use: Callable[[StoredFiles], Awaitable[Any]]) -> Any:
    """Run `use` with the files of the blob store and the ledger of a running gateway, or one that is started."""

    async def used(parts: LedgerParts) -> Any:
        from service.files.parts import open_files, stored_files

        settings = load_settings(data_dir)
        files = stored_files(settings, parts.client, parts.master_key)
        await open_files(parts.client, files, alone=False)
        return await use(files)

    return with_parts(data_dir, used)


def _owner(tenant: str | None, shared: bool) -> str:
    from core.ledger.names import SHARED_OWNER, check_tenant

    if tenant is not None and shared:
        raise typer.BadParameter("--tenant or --shared, not both")
    return SHARED_OWNER if tenant is None else check_tenant(tenant)


async def _visible(domains: Any, tenant: str | None) -> list[dict[str, Any]]:
    from core.ledger.names import SHARED_OWNER, check_tenant

    found: list[dict[str, Any]] = await domains.visible(SHARED_OWNER if tenant is None else check_tenant(tenant))
    return found


async def _watched(order: JobOrder) -> Succeeded | Failed:
    """Run the job's process and draw its progress."""
    import asyncio

    from core.job_errors import JobFailed
    from gpu_workers.child_process import ChildProcess
    from gpu_workers.jobs.messages import Failed, Progress

    inbox: asyncio.Queue[Any] = asyncio.Queue()
    process = ChildProcess(
        "gpu_workers.jobs.process",
        first=order,
        on_message=inbox.put_nowait,
        on_death=lambda: inbox.put_nowait(Failed(JobFailed("The job's process died.", reason="process-died"))),
    )
    try:
        while True:
            message = await inbox.get()
            if not isinstance(message, Progress):
                end_progress()
                return message  # type: ignore[no-any-return]
            draw_progress(message.fraction, message.stage)
    finally:
        process.kill()
        await process.stop()


def _facts(row: dict[str, Any]) -> str:
    if not row["usable"]:
        return "broken"
    if "packs" in row:
        return f"{row['dimension']} dimensions\tone of {', '.join(row['packs'])}"
    return f"{row['dimension']} dimensions\t{row['candidates']} candidates"


def _show(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    typer.echo(f"domain {result['domain']}: {result['documents']} documents, {result['candidates']} candidates")
    for warning in result["warnings"]:
        typer.echo(f"warning: {warning['code']}: {warning['count']} of {result['rows']} rows", err=True)
