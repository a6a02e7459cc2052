"""`privacy-gateway synthesize`: a table's file in, synthetic rows out, through a running gateway and its ledger."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli_common import AsJson, draw_progress, end_progress, print_json

if TYPE_CHECKING:
    import httpx

KEY_VARIABLE = "PRIVACY_GATEWAY_API_KEY"
COMPARISON = Path("comparison.html")
_POLL_S = 0.5
_FAILED = ("failed", "cancelled")


class Method(StrEnum):
    PEARL = "pearl"
    MARGINALS = "marginals"


class Design(StrEnum):
    LOW_ORDER = "low_order"
    GAUSSIAN = "gaussian"


class RowCount(StrEnum):
    PUBLIC = "public"
    PROTECTED = "protected"


class Outside(StrEnum):
    REFUSE = "refuse"
    CLIP = "clip"


def synthesize(
    schema: Annotated[Path, typer.Option(help="The declared schema: columns with public bounds or categories.")],
    data: Annotated[Path, typer.Option(help="The private rows: .csv with a header, .jsonl or .parquet.")],
    method: Annotated[Method, typer.Option(help="What to release; there is no default.")],
    epsilon: Annotated[float, typer.Option(help="Cost of the one release, for replacing one record.")],
    delta: Annotated[float, typer.Option(help="Its delta.")],
    row_count: Annotated[RowCount, typer.Option(help="Whether the number of rows may be known.")],
    out: Annotated[Path, typer.Option(help="A folder for the rows, the file that makes more, the report.")],
    name: Annotated[str | None, typer.Option(help="The job's name.  [default: the schema file's]")] = None,
    outside: Annotated[Outside, typer.Option(help="What becomes of numbers outside their bounds.")] = Outside.REFUSE,
    subject: Annotated[str | None, typer.Option(help="Whose budget, in a tenant with subjects.")] = None,
    design: Annotated[Design | None, typer.Option(help="Of pearl's frequencies.  [default: low_order]")] = None,
    frequencies: Annotated[int | None, typer.Option(help="Of pearl.  [default: 5000]")] = None,
    steps: Annotated[int | None, typer.Option(help="Of pearl's training, at most.  [default: 1000]")] = None,
    bins: Annotated[int | None, typer.Option(help="Of a numeric column, of marginals.  [default: 16]")] = None,
    rows: Annotated[int | None, typer.Option(help="Synthetic rows to write.  [default: as many as the table]")] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also write comparison.html, of your real rows: private, made here.")
    ] = False,
    url: Annotated[str, typer.Option(help="The gateway.")] = "http://127.0.0.1:8000",
    key_file: Annotated[
        Path | None, typer.Option(help=f"File with the tenant's API key.  [default: the variable {KEY_VARIABLE}]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make synthetic rows of a private table. Charges the key's tenant once; the same command again finds the same job.

    Writes NAME.csv (or .jsonl), NAME.safetensors, NAME.html and NAME.certificate.json into --out.
    """
    import httpx

    name = name or schema.stem
    fields = {
        "name": name,
        "method": method.value,
        "epsilon": epsilon,
        "delta": delta,
        "row_count": row_count.value,
        "outside": outside.value,
        "subject": subject,
        "design": None if design is None else design.value,
        "frequencies": frequencies,
        "steps": steps,
        "bins": bins,
    }
    given = {field: value for field, value in fields.items() if value is not None}
    try:
        if compare and name == COMPARISON.stem:
            raise ValueError(f"with --compare another --name: {COMPARISON} is the private page")
        declared = json.loads(schema.read_text())
        with _client(url, key_file) as client:
            job = _watched(client, _submitted(client, data, declared, given))
            shown = _fetched(client, job, out, name, rows, kind="csv" if data.suffix.lower() == ".csv" else "jsonl")
        if compare:
            from service.table_comparison import write_comparison

            shown["private"] = str(out / COMPARISON)
            artifact = out / f"{name}.safetensors"
            write_comparison(out / COMPARISON, data, artifact, shown["result"], outside=outside.value)
    except KeyboardInterrupt:
        typer.echo("stopped watching; the job goes on, and the same command finds it", err=True)
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
    if as_json:
        print_json(shown)
        return
    spent = shown["certificate"]["spent"]
    typer.echo(f"spent: epsilon {spent['epsilon']:g}, delta {spent['delta']:g} on the tenant's record account, once")
    for path in shown["files"]:
        typer.echo(path)
    if compare:
        typer.echo(f"{shown['private']}: private, made from your real rows; do not publish")


@contextmanager
def _client(url: str, key_file: Path | None) -> Iterator[httpx.Client]:
    import httpx

    key = key_file.read_text().strip() if key_file is not None else os.environ.get(KEY_VARIABLE, "")
    if not key:
        raise ValueError(f"give the tenant's API key by --key-file or in {KEY_VARIABLE}")
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=url, headers=headers, timeout=httpx.Timeout(30.0, read=600.0)) as client:
        yield client


def _submitted(client: httpx.Client, data: Path, declared: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """The job of these rows and terms, new or found again: its Idempotency-Key follows from all of them."""
    from core.errors import InvalidInput
    from core.synthesis.declared import declared_table
    from service.table_files import json_lines

    try:
        table = declared_table(declared)
    except InvalidInput as error:
        raise ValueError(f"{error.field}: {error.detail}") from None
    mac = hmac.new(client.headers["Authorization"].encode(), digestmod=hashlib.sha256)
    mac.update(json.dumps([declared, fields], sort_keys=True).encode())
    for piece in json_lines(data, table):
        mac.update(piece)
    params = {field: value if isinstance(value, str) else json.dumps(value) for field, value in fields.items()}
    answer = client.post(
        "/jobs/synthesis",
        params=params | {"schema": json.dumps(declared, separators=(",", ":"))},
        content=json_lines(data, table),
        headers={"Content-Type": "application/x-ndjson", "Idempotency-Key": mac.hexdigest()},
    )
    job: dict[str, Any] = _checked(answer).json()
    return job


def _watched(client: httpx.Client, job: dict[str, Any]) -> dict[str, Any]:
    """The job once it has succeeded. Raises ValueError with what it says of its failure."""
    seen = None
    while job["status"] not in ("succeeded", *_FAILED):
        if (job["progress"], job["stage"]) != seen:
            seen = (job["progress"], job["stage"])
            draw_progress(*seen)
        time.sleep(_POLL_S)
        job = _checked(client.get(f"/jobs/{job['job_id']}")).json()
    end_progress()
    if job["status"] in _FAILED:
        problem = job.get("problem", {})
        line = f" (line {problem['line']})" if "line" in problem else ""
        spent = job["spent"]["epsilon"]
        why = f"{problem.get('reason', job['status'])}: {problem.get('detail', 'The job was cancelled.')}{line}"
        raise ValueError(f"{why} Spent: epsilon {spent:g}. Another --name makes another job.")
    return job


def _fetched(
    client: httpx.Client, job: dict[str, Any], out: Path, name: str, rows: int | None, *, kind: str
) -> dict[str, Any]:
    """Write what the job made; returns the files and the certificate."""
    out.mkdir(parents=True, exist_ok=True)
    base = f"/jobs/{job['job_id']}"
    asked = {"format": kind} | ({} if rows is None else {"rows": rows})
    files = [out / f"{name}.{kind}", out / f"{name}.safetensors", out / f"{name}.html"]
    with client.stream("POST", f"{base}/sample", json=asked) as answer:
        _save(answer, files[0])
    for path, part in zip(files[1:], ("artifact", "report"), strict=True):
        with client.stream("GET", f"{base}/{part}") as answer:
            _save(answer, path)
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


def _save(answer: httpx.Response, path: Path) -> None:
    if answer.is_error:
        answer.read()
    _checked(answer)
    with path.open("wb") as file:
        for piece in answer.iter_bytes():
            file.write(piece)


def _checked(answer: httpx.Response) -> httpx.Response:
    """`answer`, unless it is a problem: then ValueError with what it says."""
    if not answer.is_error:
        return answer
    try:
        problem = answer.json()
    except ValueError:
        raise ValueError(f"the gateway answered {answer.status_code}") from None
    told = [f"{problem['code']}: {problem.get('detail', problem['title'])}"]
    told += [f"{error['field']}: {error.get('message', error.get('kind'))}" for error in problem.get("errors", [])]
    if "remaining" in problem:
        left = problem["remaining"]
        told.append(f"{problem['account']} has epsilon {left['epsilon']:g}, delta {left['delta']:g} left")
        told.append("the same command is told the same again: another --name asks anew")
    raise ValueError("; ".join(told))
