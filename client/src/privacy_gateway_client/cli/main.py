"""`privacy-gateway-client`: embed, sanitise, synthesise, fine-tune and watch the budget against a remote gateway."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from privacy_gateway_client import Gateway
from privacy_gateway_client.answers import Job
from privacy_gateway_client.cli import exits, texts
from privacy_gateway_client.cli.inputs import (
    KEY_VARIABLE,
    URL_DEFAULT,
    URL_VARIABLE,
    UsageError,
    api_key,
    digest,
    json_file,
    table,
)
from privacy_gateway_client.errors import GatewayError, ReleaseGone
from privacy_gateway_client.options import Retry
from privacy_gateway_client.wire import given

Command = Callable[[Gateway, argparse.Namespace, str], None]
_ENDS = """exit codes:
  0 done    1 another error    2 arguments, files or a refused request    3 budget or cap (what was paid is kept)
  4 key     5 no answer (the same command continues)    6 charged, answer lost    7 job failed    130 interrupted"""

_FINETUNE_TERMS = [
    *("method", "model", "sampling", "pairs", "epochs", "steps", "rank"),
    *("pieces_max", "learning_rate", "weight_decay", "subject", "rows"),
]
_SYNTHESIS_TERMS = ("subject", "outside", "design", "frequencies", "steps", "bins")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    args = _parser().parse_args(arguments)
    command: Command = args.run
    try:
        key = api_key(args.key_file)
    except (UsageError, OSError) as error:
        return _failed(exits.KEY, _message(error))
    try:
        retry = Retry(attempts=1_000_000, seconds_max=args.wait)
        with (
            Gateway(args.url, key, retry=retry) as client,
            nullcontext() if args.cap is None else client.budget_cap(args.cap),
        ):
            command(client, args, key)
    except GatewayError as error:
        more = " Use another --name to buy this part again." if isinstance(error, ReleaseGone) else ""
        return _failed(exits.code_of(error), f"{error}.{more}")
    except (UsageError, OSError, UnicodeDecodeError) as error:
        return _failed(exits.USAGE, _message(error))
    except KeyboardInterrupt:
        return _failed(exits.STOPPED, "interrupted; the same command continues")
    return exits.DONE


def _message(error: Exception) -> str:
    """Without the content of a file, which the message of a decoding error would show."""
    if isinstance(error, UnicodeDecodeError):
        return "a file is not UTF-8"
    return f"{type(error).__name__}: {error.strerror}" if isinstance(error, OSError) else str(error)


def _failed(code: int, message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return code


def _budget(client: Gateway, args: argparse.Namespace, _: str) -> None:
    if args.mechanism is not None:
        if args.epsilon is None:
            raise UsageError("--mechanism needs --epsilon")
        try:
            print(client.budget.remaining(args.mechanism, epsilon=args.epsilon))
        except LookupError:
            raise UsageError("the gateway prices no such mechanism") from None
        return
    for account in client.budget.accounts():
        left, limit = account.remaining, account.limit
        print(
            f"{account.account}\tepsilon {left.epsilon:g} of {limit.epsilon:g}\tdelta {left.delta:g} of {limit.delta:g}"
        )


def _synthesize(client: Gateway, args: argparse.Namespace, api_key: str) -> None:
    """Make synthetic rows of a table: the rows, the release, a report and the certificate."""
    schema_file, data = Path(args.schema), Path(args.data)
    schema = json_file(schema_file)
    terms: dict[str, Any] = {"method": args.method, "epsilon": args.epsilon, "delta": args.delta}
    terms |= {"row_count": args.row_count, **given({name: getattr(args, name) for name in _SYNTHESIS_TERMS})}
    job = client.synthesize(
        args.name,
        table(data, schema),
        schema=schema,
        idempotency_key=_job_key(api_key, "synthesize", args.name, terms, digest(schema_file, data)),
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


def _finetune(client: Gateway, args: argparse.Namespace, api_key: str) -> None:
    """Train a private classifier: its weights and its card."""
    data, public = Path(args.data), Path(args.public) if args.public else None
    terms = given({name: getattr(args, name) for name in _FINETUNE_TERMS})
    terms |= {"labels": args.label, "epsilon": args.epsilon, "delta": args.delta, "batch": args.batch}
    files = digest(data, *([public] if public else []))
    key = _job_key(api_key, "finetune", args.name, terms, files)
    done = _waited(client, client.finetune(args.name, data, public=public, idempotency_key=key, **terms))
    out = _folder(args.out)
    (out / f"{args.name}.safetensors").write_bytes(client.jobs.artifact(done))
    (out / f"{args.name}.md").write_text(client.jobs.card(done), encoding="utf-8")


def _waited(client: Gateway, job: Job) -> Job:
    return client.jobs.wait(job, progress=True)


def _job_key(api_key: str, command: str, name: str, terms: dict[str, Any], files: str) -> str:
    described = json.dumps([api_key, command, name, terms, files], sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()


def _folder(out: str) -> Path:
    folder = Path(out)
    if folder.is_file():
        raise UsageError(f"{folder.name} is a file; --out names a folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="privacy-gateway-client",
        description=__doc__,
        epilog=_ENDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--url", default=os.environ.get(URL_VARIABLE, URL_DEFAULT), help=f"default: {URL_VARIABLE}")
    shared.add_argument("--key-file", help=f"file with the API key; default: the variable {KEY_VARIABLE}")
    shared.add_argument("--cap", type=float, help="refuse what would charge more than this epsilon in all")
    shared.add_argument("--wait", type=float, default=300.0, help="seconds to try again after a lost connection")
    _texts(commands, shared)
    _jobs(commands, shared)
    one = commands.add_parser("budget", parents=[shared], help="what is left, or how many requests fit")
    one.add_argument("--mechanism")
    one.add_argument("--epsilon", type=float)
    one.set_defaults(run=_budget)
    return parser


def _texts(commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser) -> None:
    one = commands.add_parser("embed", parents=[shared], help="embed documents into a safetensors file")
    one.add_argument("file", help="JSON lines with `text`, or one text a line")
    one.add_argument("--epsilon", type=float, required=True, help="of each document")
    one.add_argument("--out", required=True)
    for name in ("mechanism", "domain", "subject", "segmentation"):
        one.add_argument(f"--{name}")
    one.add_argument("--name", default="", help="another name makes another release of the same file")
    one.set_defaults(run=texts.embed)

    one = commands.add_parser("sanitize", parents=[shared], help="sanitise documents into JSON lines")
    one.add_argument("file", help="JSON lines with `text`, or one text a line")
    one.add_argument("--out", required=True)
    one.add_argument("--fill", help="class_marker, marker, surrogate, metric_dp, dp, top1, topk")
    one.add_argument("--epsilon", type=float, help="of the fills metric_dp and dp")
    one.add_argument("--technique", action="append", help="entity, vocabulary, allow_list, all; may be repeated")
    one.add_argument("--entity", action="append", help="may be repeated")
    one.add_argument("--profile")
    one.add_argument("--policy")
    one.add_argument("--name", default="", help="another name makes another release of the same file")
    one.set_defaults(run=texts.sanitize)


def _jobs(commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser) -> None:
    one = commands.add_parser("synthesize", parents=[shared], help="make synthetic rows of a table")
    one.add_argument("--schema", required=True, help="JSON file with the columns")
    one.add_argument("--data", required=True, help=".csv with a header, or JSON lines")
    one.add_argument("--method", choices=["pearl", "marginals"], required=True)
    one.add_argument("--row-count", choices=["public", "protected"], required=True)
    one.add_argument("--rows", type=int, help="synthetic rows; default: as many as the table has")
    one.add_argument("--outside", choices=["refuse", "clip"], help="values outside the declared bounds")
    one.add_argument("--design", choices=["low_order", "gaussian"])
    for number in ("frequencies", "steps", "bins"):
        one.add_argument(f"--{number}", type=int)
    _training(one, "table")
    one.set_defaults(run=_synthesize)

    one = commands.add_parser("finetune", parents=[shared], help="train a private classifier")
    one.add_argument("--data", required=True, help="JSON lines with `text` and `label`")
    one.add_argument("--public", help="the public split, for metrics")
    one.add_argument("--label", action="append", required=True, help="repeated for each label")
    one.add_argument("--batch", type=int, required=True)
    one.add_argument("--rows", type=int, help="default: the number of rows of --data")
    one.add_argument("--epochs", type=float)
    one.add_argument("--steps", type=int)
    one.add_argument("--method", choices=["lora", "rgp", "full"])
    one.add_argument("--model")
    one.add_argument("--sampling", choices=["poisson", "random_allocation"])
    one.add_argument("--pairs", action="store_true", default=None, help="rows have `text_pair` as well")
    for number in ("rank", "pieces-max"):
        one.add_argument(f"--{number}", type=int)
    for rate in ("learning-rate", "weight-decay"):
        one.add_argument(f"--{rate}", type=float)
    _training(one, "classifier")
    one.set_defaults(run=_finetune)


def _training(one: argparse.ArgumentParser, name: str) -> None:
    one.add_argument("--epsilon", type=float, required=True)
    one.add_argument("--delta", type=float, required=True)
    one.add_argument("--subject")
    one.add_argument("--name", default=name, help="another name makes another release of the same file")
    one.add_argument("--out", required=True, help="folder for the results")


if __name__ == "__main__":
    sys.exit(main())
