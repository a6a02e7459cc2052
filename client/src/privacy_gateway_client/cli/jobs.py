"""`synthesize` and `finetune`: submit a job, follow it, fetch what it made. The same command finds the same job."""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

from privacy_gateway_client import Gateway
from privacy_gateway_client.answers import Job
from privacy_gateway_client.cli.inputs import UsageError, digest, json_file, table
from privacy_gateway_client.wire import given

_TERMS = [
    *("method", "model", "sampling", "pairs", "epochs", "steps", "rank"),
    *("pieces_max", "learning_rate", "weight_decay", "subject", "rows"),
]
_DESIGN = ("subject", "outside", "design", "frequencies", "steps", "bins")


def synthesize(client: Gateway, args: argparse.Namespace, api_key: str) -> None:
    """Make synthetic rows of a table: the rows, the release, a report and the certificate."""
    schema_file, data = Path(args.schema), Path(args.data)
    schema = json_file(schema_file)
    terms: dict[str, Any] = {"method": args.method, "epsilon": args.epsilon, "delta": args.delta}
    terms |= {"row_count": args.row_count, **given({name: getattr(args, name) for name in _DESIGN})}
    job = client.synthesize(
        args.name,
        table(data, schema),
        schema=schema,
        idempotency_key=_key(api_key, "synthesize", args.name, terms, digest(schema_file, data)),
        **terms,
    )
    done = _waited(client, job)
    out = _folder(args.out)
    if data.suffix == ".csv":
        (out / f"{args.name}.csv").write_bytes(client.jobs.sample_csv(done, rows=args.rows))
    else:
        with (out / f"{args.name}.jsonl").open("w", encoding="utf-8") as file:
            for row in client.jobs.sample(done, rows=args.rows):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
    (out / f"{args.name}.safetensors").write_bytes(client.jobs.artifact(done))
    (out / f"{args.name}.html").write_bytes(client.jobs.report(done))
    certificate = (done.result or {}).get("privacy", {})
    (out / f"{args.name}.certificate.json").write_text(json.dumps(certificate, indent=1))


def finetune(client: Gateway, args: argparse.Namespace, api_key: str) -> None:
    """Train a private classifier: its weights and its card."""
    data, public = Path(args.data), Path(args.public) if args.public else None
    terms = given({name: getattr(args, name) for name in _TERMS})
    terms |= {"labels": args.label, "epsilon": args.epsilon, "delta": args.delta, "batch": args.batch}
    files = digest(data, *([public] if public else []))
    key = _key(api_key, "finetune", args.name, terms, files)
    done = _waited(client, client.finetune(args.name, data, public=public, idempotency_key=key, **terms))
    out = _folder(args.out)
    (out / f"{args.name}.safetensors").write_bytes(client.jobs.artifact(done))
    (out / f"{args.name}.md").write_text(client.jobs.card(done), encoding="utf-8")


def _waited(client: Gateway, job: Job) -> Job:
    return client.jobs.wait(job, progress=True)


def _key(api_key: str, command: str, name: str, terms: dict[str, Any], files: str) -> str:
    described = json.dumps([api_key, command, name, terms, files], sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()


def _folder(out: str) -> Path:
    folder = Path(out)
    if folder.is_file():
        raise UsageError(f"{folder.name} is a file; --out names a folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
