"""`privacy-gateway finetune`: labelled texts in, a privately trained classifier out, through a running gateway."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from service.cli.common import AsJson, print_json
from service.cli.jobs import URL_DEFAULT, KeyFile, Url, checked, gateway_client, one_line_errors, save, wait_for
from service.cli.options import differing, given, with_fields
from service.finetune.schemas import FinetuneFields

if TYPE_CHECKING:
    import httpx


@with_fields(FinetuneFields, leave_out=("name",), names={"labels": "label"})
def finetune(
    data: Annotated[Path, typer.Option(help='The private rows, JSON lines of {"text", "label"}.')],
    out: Annotated[Path, typer.Option(help="A folder for the classifier's file and its card.")],
    public: Annotated[Path | None, typer.Option(help="Public rows, of which metrics are shown.")] = None,
    name: Annotated[str | None, typer.Option(help="The job's name.  [default: the data file's]")] = None,
    url: Url = URL_DEFAULT,
    key_file: KeyFile = None,
    as_json: AsJson = False,
    **fields: Any,
) -> None:
    """Train a classifier under differential privacy. Charges the key's tenant once; run again, it finds the same job.

    Writes NAME.safetensors and NAME.md, the card with the certificate, into --out.
    """
    name = name or data.stem
    too_long = "the labels are too long for a query; POST /jobs/finetune as JSON takes them"
    with one_line_errors(too_long=too_long), gateway_client(url, key_file) as client:
        job = wait_for(client, _submitted(client, data, public, {"name": name, **given(fields)}))
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
    """The job of these rows and fields. They determine its Idempotency-Key, so a second run finds the same job."""
    mac = hmac.new(client.headers["Authorization"].encode(), digestmod=hashlib.sha256)
    mac.update(json.dumps(differing(FinetuneFields, fields), sort_keys=True).encode())
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
    """The lines of the private file unchanged, so that line numbers match; then the public rows, marked as such."""
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
    """Write the job's files; returns their paths."""
    out.mkdir(parents=True, exist_ok=True)
    files = {"artifact": out / f"{name}.safetensors", "card": out / f"{name}.md"}
    for part, path in files.items():
        with client.stream("GET", f"/jobs/{job['job_id']}/{part}") as answer:
            save(answer, path)
    return [str(path) for path in files.values()]
