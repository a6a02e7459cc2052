"""`privacy-gateway synthesize`: a table's file in, synthetic rows out, through a running gateway and its ledger."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.files.secret_file import write_secret
from service.cli.common import AsJson, draw_progress, end_progress, print_json
from service.cli.options import differing, given, with_fields
from service.synthesis.schemas import SynthesisFields

if TYPE_CHECKING:
    import httpx

COMPARISON = Path("comparison.html")
KEY_VARIABLE = "PRIVACY_GATEWAY_API_KEY"
Url = Annotated[str, typer.Option(help="The gateway.")]
KeyFile = Annotated[
    Path | None, typer.Option(help=f"File with the tenant's API key.  [default: the variable {KEY_VARIABLE}]")
]
URL_DEFAULT = "http://127.0.0.1:8000"
_POLL_S = 0.5
_FAILED = ("failed", "cancelled")


@contextmanager
def one_line_errors() -> Iterator[None]:
    """End the command with 1 and one line for an expected error."""
    import httpx

    try:
        yield
    except KeyboardInterrupt:
        typer.echo("stopped watching; the job continues, and the same command finds it", err=True)
        raise typer.Exit(1) from None
    except httpx.InvalidURL:
        typer.echo("error: the schema is too long for a query; POST /jobs/synthesis as JSON takes it", err=True)
        raise typer.Exit(1) from None
    except httpx.HTTPError as error:
        typer.echo(f"error: the gateway does not answer: {type(error).__name__}", err=True)
        raise typer.Exit(1) from None
    except (ValueError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None


@contextmanager
def gateway_client(url: str, key_file: Path | None) -> Iterator[httpx.Client]:
    import httpx

    headers = {"Authorization": f"Bearer {_api_key(key_file)}"}
    with httpx.Client(base_url=url, headers=headers, timeout=httpx.Timeout(30.0, read=600.0)) as client:
        yield client


def _api_key(key_file: Path | None) -> str:
    from core.credentials import api_key
    from core.files.secret_file import read_secret

    if key_file is not None:
        advice = "`privacy-gateway key create TENANT --key-file FILE` writes a new one"
        return read_secret(key_file, lambda content: api_key(content.decode(errors="replace")), advice=advice)
    given = os.environ.get(KEY_VARIABLE, "")
    if not given:
        raise ValueError(f"give the tenant's API key by --key-file or in {KEY_VARIABLE}")
    return api_key(given)


def wait_for(client: httpx.Client, job: dict[str, Any]) -> dict[str, Any]:
    """The job once it has succeeded. Raises ValueError with the reason of its failure."""
    seen = None
    while job["status"] not in ("succeeded", *_FAILED):
        if (job["progress"], job["stage"]) != seen:
            seen = (job["progress"], job["stage"])
            draw_progress(*seen)
        time.sleep(_POLL_S)
        job = checked(client.get(f"/jobs/{job['job_id']}")).json()
    end_progress()
    if job["status"] in _FAILED:
        problem = job.get("problem", {})
        line = f" (line {problem['line']})" if "line" in problem else ""
        spent = job["spent"]["epsilon"]
        why = f"{problem.get('reason', job['status'])}: {problem.get('detail', 'The job was cancelled.')}{line}"
        raise ValueError(f"{why} Spent: epsilon {spent:g}. Use another --name to start over.")
    return job


def save(answer: httpx.Response, path: Path) -> None:
    if answer.is_error:
        answer.read()
    checked(answer)
    with path.open("wb") as file:
        for piece in answer.iter_bytes():
            file.write(piece)


def checked(answer: httpx.Response) -> httpx.Response:
    """`answer`. Raises ValueError with the text of a problem."""
    if not answer.is_error:
        return answer
    try:
        problem = answer.json()
    except ValueError:
        raise ValueError(f"the gateway answered {answer.status_code}") from None
    lines = [f"{problem['code']}: {problem.get('detail', problem['title'])}"]
    lines += [f"{error['field']}: {error.get('message', error.get('kind'))}" for error in problem.get("errors", [])]
    if "remaining" in problem:
        left = problem["remaining"]
        lines.append(f"{problem['account']} has epsilon {left['epsilon']:g}, delta {left['delta']:g} left")
        lines.append("Rerunning returns this result; use another --name to start over.")
    raise ValueError("; ".join(lines))


@with_fields(SynthesisFields, leave_out=("name", "table"))
def synthesize(
    schema: Annotated[Path, typer.Option(help="The declared schema: columns with public bounds or categories.")],
    data: Annotated[Path, typer.Option(help="The private rows: .csv with a header, .jsonl or .parquet.")],
    out: Annotated[Path, typer.Option(help="A folder for the rows, the file that makes more, the report.")],
    name: Annotated[str | None, typer.Option(help="The job's name.  [default: the schema file's]")] = None,
    rows: Annotated[int | None, typer.Option(help="Synthetic rows to write.  [default: as many as the table]")] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also write comparison.html, of your real rows: private, made locally.")
    ] = False,
    url: Url = URL_DEFAULT,
    key_file: KeyFile = None,
    as_json: AsJson = False,
    **fields: Any,
) -> None:
    """Make synthetic rows of a private table. Charges the key's tenant once; the same command finds the same job again.

    Writes NAME.csv (or .jsonl), NAME.safetensors, NAME.html and NAME.certificate.json into --out.
    """
    name = name or schema.stem
    terms = {"name": name, **given(fields)}
    with one_line_errors():
        if compare and name == COMPARISON.stem:
            raise ValueError(f"with --compare another --name: {COMPARISON} is the private page")
        declared = json.loads(schema.read_text())
        with gateway_client(url, key_file) as client:
            job = wait_for(client, _submitted(client, data, declared, terms))
            shown = _fetched(client, job, out, name, rows, kind="csv" if data.suffix.lower() == ".csv" else "jsonl")
        if compare:
            shown["private"] = str(out / COMPARISON)
            artifact = out / f"{name}.safetensors"
            write_comparison(out / COMPARISON, data, artifact, shown["result"], outside=terms.get("outside", "refuse"))
    if as_json:
        print_json(shown)
        return
    spent = shown["certificate"]["spent"]
    typer.echo(f"spent: epsilon {spent['epsilon']:g}, delta {spent['delta']:g} on the tenant's record account, once")
    for path in shown["files"]:
        typer.echo(path)
    if compare:
        typer.echo(f"{shown['private']}: private, made from your real rows; do not publish")


def _submitted(client: httpx.Client, data: Path, declared: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """The job of these rows and fields. They determine its Idempotency-Key, so a second run finds the same job."""
    from core.errors import InvalidInput
    from core.synthesis.declared import declared_table
    from service.synthesis.table_files import json_lines

    try:
        table = declared_table(declared)
    except InvalidInput as error:
        raise ValueError(f"{error.field}: {error.detail}") from None
    mac = hmac.new(client.headers["Authorization"].encode(), digestmod=hashlib.sha256)
    mac.update(json.dumps([declared, differing(SynthesisFields, fields)], sort_keys=True).encode())
    for piece in json_lines(data, table):
        mac.update(piece)
    params = {field: value if isinstance(value, str) else json.dumps(value) for field, value in fields.items()}
    answer = client.post(
        "/jobs/synthesis",
        params=params | {"schema": json.dumps(declared, separators=(",", ":"))},
        content=json_lines(data, table),
        headers={"Content-Type": "application/x-ndjson", "Idempotency-Key": mac.hexdigest()},
    )
    job: dict[str, Any] = checked(answer).json()
    return job


def _fetched(
    client: httpx.Client, job: dict[str, Any], out: Path, name: str, rows: int | None, *, kind: str
) -> dict[str, Any]:
    """Write the job's files; returns their paths and the certificate."""
    out.mkdir(parents=True, exist_ok=True)
    base = f"/jobs/{job['job_id']}"
    params = {"format": kind} | ({} if rows is None else {"rows": rows})
    files = [out / f"{name}.{kind}", out / f"{name}.safetensors", out / f"{name}.html"]
    with client.stream("POST", f"{base}/sample", json=params) as answer:
        save(answer, files[0])
    for path, part in zip(files[1:], ("artifact", "report"), strict=True):
        with client.stream("GET", f"{base}/{part}") as answer:
            save(answer, path)
    certificate = {
        "job_id": job["job_id"],
        "spent": job["spent"],
        "event": job["result"]["privacy"],
        "row_count": job["result"]["row_count"],
        "note": "One Gaussian release, charged once in the gateway's ledger; the files are post-processing of it.",
    }
    files.append(out / f"{name}.certificate.json")
    files[-1].write_text(json.dumps(certificate, indent=2) + "\n")
    return {"files": [str(path) for path in files], "certificate": certificate, "result": job["result"]}


def write_comparison(path: Path, data: Path, artifact: Path, result: dict[str, Any], *, outside: str) -> None:
    """Write a page that compares real and synthetic rows, which only the owner of the real rows may read.

    No guarantee covers it, and it is not sent to the gateway. `result`: of the job. Raises ValueError for rows that do
    not belong to the job, OSError.
    """
    # imported late: scipy and scikit-learn
    from core.job_errors import BadCorpus
    from core.synthesis.declared import DeclaredTable
    from core.synthesis.encoding import ROWS_MAX, Outside
    from gpu_workers.synthesis.artifact import load_source
    from gpu_workers.synthesis.comparison import comparison_page
    from gpu_workers.synthesis.job import read_table
    from service.synthesis.table_files import json_lines

    source = load_source(artifact)
    declared = DeclaredTable(source.schema, result["dimension"])
    try:
        real = read_table(json_lines(data, declared), declared, outside=Outside(outside), rows_max=ROWS_MAX)
    except BadCorpus as error:
        raise ValueError(f"{data}: {error.detail}") from None
    multiplier = result["privacy"]["noise_multiplier"]
    page = comparison_page(result["name"], real, source, noise_multiplier=multiplier)
    write_secret(path, page.encode(), replace=True)
