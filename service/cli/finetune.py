"""`privacy-gateway finetune`: labelled texts in, a privately trained classifier out, through a running gateway."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from service.cli.common import AsJson, print_json
from service.cli.jobs import URL_DEFAULT, KeyFile, Url, checked, gateway_client, save, told_in_a_line, watched

if TYPE_CHECKING:
    import httpx


class Method(StrEnum):
    LORA = "lora"
    RGP = "rgp"
    FULL = "full"


class Sampling(StrEnum):
    POISSON = "poisson"
    RANDOM_ALLOCATION = "random_allocation"


def finetune(
    data: Annotated[Path, typer.Option(help='The private rows, JSON lines of {"text", "label"}.')],
    label: Annotated[list[str], typer.Option(help="A label's name; once for each, declared.")],
    epsilon: Annotated[float, typer.Option(help="Of the run for one row more or less; replacing one costs more.")],
    delta: Annotated[float, typer.Option(help="Its delta.")],
    rows: Annotated[int, typer.Option(help="The number of private rows, declared: it is public.")],
    batch: Annotated[int, typer.Option(help="Rows expected in a step.")],
    out: Annotated[Path, typer.Option(help="A folder for the classifier's file and its card.")],
    public: Annotated[Path | None, typer.Option(help="Public rows, of which metrics are shown.")] = None,
    epochs: Annotated[float | None, typer.Option(help="How often a row is expected to be read; or --steps.")] = None,
    steps: Annotated[int | None, typer.Option(help="Of the training.")] = None,
    sampling: Annotated[Sampling | None, typer.Option(help="How rows join steps.  [default: poisson]")] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help='Rows have a "text_pair" as well.')] = False,
    method: Annotated[Method, typer.Option(help="What is trained.")] = Method.LORA,
    model: Annotated[str, typer.Option(help="The encoder, one of the gateway's.")] = "bundled",
    rank: Annotated[int | None, typer.Option(help="Of adapters or carriers.")] = None,
    pieces_max: Annotated[int | None, typer.Option(help="Word pieces read of a text.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of the encoder's part.")] = None,
    name: Annotated[str | None, typer.Option(help="The job's name.  [default: the data file's]")] = None,
    subject: Annotated[str | None, typer.Option(help="Whose budget, in a tenant with subjects.")] = None,
    url: Url = URL_DEFAULT,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Train a classifier under differential privacy. Charges the key's tenant once; typed again, finds the same job.

    Writes NAME.safetensors and NAME.md, the card with the certificate, into --out.
    """
    name = name or data.stem
    fields = {
        "name": name,
        "labels": label,
        "pairs": pairs,
        "method": method.value,
        "model": model,
        "epsilon": epsilon,
        "delta": delta,
        "rows": rows,
        "batch": batch,
        "epochs": epochs,
        "steps": steps,
        "sampling": sampling.value if sampling else None,
        "rank": rank,
        "pieces_max": pieces_max,
        "learning_rate": learning_rate,
        "subject": subject,
    }
    given = {field: value for field, value in fields.items() if value is not None}
    too_long = "the labels are too long for a query; POST /jobs/finetune as JSON takes them"
    with told_in_a_line(too_long=too_long), gateway_client(url, key_file) as client:
        job = watched(client, _submitted(client, data, public, given))
        files = _fetched(client, job, out, name)
    if as_json:
        print_json({"files": files, "spent": job["spent"], "result": job["result"]})
        return
    spent, metrics = job["spent"], job["result"]["metrics"]
    typer.echo(f"spent: epsilon {spent['epsilon']:g}, delta {spent['delta']:g} on the tenant's record account, once")
    if metrics:
        typer.echo(f"on {metrics['rows']} public rows: accuracy {metrics['accuracy']:.4f}")
    for path in files:
        typer.echo(path)


def _submitted(client: httpx.Client, data: Path, public: Path | None, fields: dict[str, Any]) -> dict[str, Any]:
    """The job of these rows and terms, new or found again: its Idempotency-Key follows from all of them."""
    mac = hmac.new(client.headers["Authorization"].encode(), digestmod=hashlib.sha256)
    mac.update(json.dumps(fields, sort_keys=True).encode())
    for line in _lines(data, public):
        mac.update(line)
    answer = client.post(
        "/jobs/finetune",
        params={field: value if isinstance(value, str) else json.dumps(value) for field, value in fields.items()},
        content=_lines(data, public),
        headers={"Content-Type": "application/x-ndjson", "Idempotency-Key": mac.hexdigest()},
    )
    job: dict[str, Any] = checked(answer).json()
    return job


def _lines(data: Path, public: Path | None) -> Iterator[bytes]:
    """The private file as it stands, so that the job's line numbers are its own; then the public rows, marked."""
    with data.open("rb") as file:
        for line in file:
            yield line.rstrip(b"\n") + b"\n"
    if public is None:
        return
    with public.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    yield orjson.dumps(dict(orjson.loads(line)) | {"split": "public"}) + b"\n"
                except (ValueError, TypeError):
                    raise ValueError(f"line {number} of the public rows is no JSON object") from None


def _fetched(client: httpx.Client, job: dict[str, Any], out: Path, name: str) -> list[str]:
    """Write what the job made; returns the files."""
    out.mkdir(parents=True, exist_ok=True)
    files = {"artifact": out / f"{name}.safetensors", "card": out / f"{name}.md"}
    for part, path in files.items():
        with client.stream("GET", f"/jobs/{job['job_id']}/{part}") as answer:
            save(answer, path)
    return [str(path) for path in files.values()]
