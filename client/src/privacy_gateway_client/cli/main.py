"""`privacy-gateway-client`: embed, sanitise, synthesise, fine-tune and watch the budget against a remote gateway."""

from __future__ import annotations

import argparse
import contextlib
import contextvars
import hashlib
import hmac
import json
import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

from privacy_gateway_client import Gateway, errors
from privacy_gateway_client.answers import Embeddings, Job, Progress, meter
from privacy_gateway_client.cli.tables import LEAK, Table, TableError, described, draft, placeholders, table
from privacy_gateway_client.errors import BadRow, GatewayError, JobFailed, ReleaseGone
from privacy_gateway_client.generated.content import document_stand_in, text_stand_in
from privacy_gateway_client.generated.jobs import rows_in
from privacy_gateway_client.inputs import check_filled, numbered
from privacy_gateway_client.options import Retry
from privacy_gateway_client.wire import Tensor, given, written

DONE = 0
FAILED = 1  # another error
USAGE = 2  # arguments, files, or a request that the gateway refuses
BUDGET = 3  # the budget or the cap does not cover the rest; what was paid is kept
KEY = 4  # the key is missing, unknown or lacks a role
UNREACHABLE = 5  # no answer, or the gateway is not ready; the same command continues
LOST = 6  # a part was charged and its answer is lost; --name with another name buys it again
JOB = 7  # the job failed or was cancelled
STOPPED = 130  # interrupted; the same command continues

# the first one whose classes an error has
_CODES: dict[int, tuple[type[errors.GatewayError], ...]] = {
    BUDGET: (errors.BudgetExhausted, errors.PlanMismatch, errors.BudgetCapReached),
    KEY: (errors.Unauthorized, errors.Forbidden),
    USAGE: (errors.InvalidRequest, errors.Rejected, errors.TooLarge),
    LOST: (errors.ReleaseGone, errors.WorkFailed),
    UNREACHABLE: (errors.ConnectionLost, errors.NotStarted, errors.TooManyRequests, errors.StreamInterrupted),
    JOB: (errors.JobFailed,),
}


def code_of(error: errors.GatewayError) -> int:
    return next((code for code, kinds in _CODES.items() if isinstance(error, kinds)), FAILED)


KEY_VARIABLE, URL_VARIABLE = "PRIVACY_GATEWAY_API_KEY", "PRIVACY_GATEWAY_URL"
URL_DEFAULT = "http://127.0.0.1:8000"


class UsageError(Exception):
    """A message for the user that ends the command. It holds no content of a file."""


def api_key(key_file: str | None) -> str:
    """The key in the file, or in the environment. Raises UsageError."""
    key = Path(key_file).read_text().strip() if key_file else os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        raise UsageError(f"give the API key by --key-file or in {KEY_VARIABLE}")
    return key


_MEMBERS = ("id", "text", "sentences", "embeddings", "subject")


def documents(path: Path, members: Sequence[str] = _MEMBERS) -> list[dict[str, Any]]:
    """The documents of a file: JSON lines with a member `text`, `sentences` or `embeddings`; else one text a line.

    Raises UsageError with the number of a line that cannot be read."""
    found = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                found.append(
                    _document(line, number, members) if path.suffix == ".jsonl" else {"text": line.rstrip("\r\n")}
                )
    if not found:
        raise UsageError(f"{path.name} holds no document")
    return found


def _document(line: str, number: int, members: Sequence[str]) -> dict[str, Any]:
    value = _object(line, number)
    known: dict[str, Any] = {name: value[name] for name in members if name in value}
    if not known.keys() & {"text", "sentences", "embeddings"}:
        raise UsageError(f"line {number} has no member text, sentences or embeddings")
    return known


def json_file(path: Path) -> dict[str, Any]:
    return _object(path.read_text(encoding="utf-8"), None)


def _object(text: str, number: int | None) -> dict[str, Any]:
    value: Any = None
    with contextlib.suppress(ValueError):
        value = json.loads(text)
    if not isinstance(value, dict):
        raise UsageError("the file is no JSON object" if number is None else f"line {number} is no JSON object")
    return value


def digest(*paths: Path) -> str:
    """A hash of the content of files."""
    found = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                found.update(piece)
        found.update(b"|")
    return found.hexdigest()


_AT_ONCE = 4  # parts in work
_PART = 64  # documents of a part: a command that is killed asks for this many again


class OutputParts:
    """The parts of one output. `asked`: what determines them; `name`: as the user's `--name`, part of the keys only.

    Guarantee: the same command on the same file buys each part once. A part that arrived is in the folder `OUT.parts`
    and is not asked for again; a part that was paid and did not arrive is asked for under the same idempotency key, and
    the gateway returns it without a charge while it keeps the answer. The folder holds what the gateway released, no
    input, and is removed when the output is complete.
    """

    def __init__(self, out: Path, asked: Mapping[str, Any], *, api_key: str, name: str) -> None:
        self._folder = out.with_name(out.name + ".parts")
        described = json.dumps(asked, sort_keys=True)
        self._secret = hashlib.sha256(f"{api_key}|{name}|{described}".encode()).digest()
        self._asked = hashlib.sha256(f"{api_key}|{described}".encode()).hexdigest()
        self._out = out

    @property
    def begun(self) -> bool:
        """Whether an earlier command may have paid for some of them."""
        return self._folder.exists()

    def open(self) -> None:
        """Raises UsageError if the folder belongs to another command."""
        if self._out.exists():
            raise UsageError(f"{self._out.name} exists; remove it to make it anew")
        self._folder.mkdir(parents=True, exist_ok=True)
        mark = self._folder / "asked"
        if mark.exists() and mark.read_text() != self._asked:
            raise UsageError(f"{self._folder.name} is of another file or of other parameters; remove it to start over")
        mark.write_text(self._asked)

    def key(self, start: int) -> str:
        """The idempotency key of the part that starts at an input."""
        return hmac.digest(self._secret, str(start).encode(), "sha256").hex()

    def has(self, start: int) -> bool:
        return self._path(start).exists()

    def read(self, start: int) -> bytes:
        return self._path(start).read_bytes()

    def write(self, start: int, content: bytes) -> None:
        """A part is there as a whole or not at all."""
        _write_whole(self._path(start), content)

    def finish(self, content: bytes) -> None:
        _write_whole(self._out, content)
        shutil.rmtree(self._folder)

    def _path(self, start: int) -> Path:
        return self._folder / f"{start:09}"


def _write_whole(path: Path, content: bytes) -> None:
    draft = path.with_name(path.name + ".draft")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def embed(client: Gateway, given_args: argparse.Namespace, api_key: str) -> None:
    """Embed the documents of a file into a safetensors file: `embeddings` `[n, dimension]`, and the releases."""
    path, out = Path(given_args.file), Path(given_args.out)
    rows = documents(path)
    options = given(
        {name: getattr(given_args, name) for name in ("mechanism", "domain", "subject", "segmentation")}
        | {"epsilon": given_args.epsilon}
    )
    asked = {"command": "embed", "file": digest(path), "url": given_args.url, **options}
    parts = OutputParts(out, asked, api_key=api_key, name=given_args.name)

    def part(start: int) -> bytes:
        with numbered(range(start, start + _PART)):
            result: Embeddings = client.embed_documents(
                rows[start : start + _PART], idempotency_key=parts.key(start), **options
            )
        return _file(result, start)

    _check_rows(client, given_args, parts, rows, document_stand_in(rows, options))
    starts = _made(parts, len(rows), part)
    tensors = [Tensor(parts.read(start), "embeddings") for start in starts]
    releases = [release for tensor in tensors for release in json.loads(tensor.metadata["releases"])]
    shape = (len(rows), tensors[0].shape[1])
    numbers = b"".join(bytes(tensor.numbers) for tensor in tensors)
    ids = json.dumps([row.get("id") for row in rows])
    parts.finish(written("embeddings", "F32", shape, numbers, releases=json.dumps(releases), ids=ids))


def _file(result: Embeddings, offset: int) -> bytes:
    releases = [
        {
            "inputs": [offset + release.inputs[0], offset + release.inputs[-1] + 1],
            "privacy": release.privacy.model_dump(exclude_unset=True),
        }
        for release in result.releases
    ]
    vectors: Any = result.vectors
    numbers = vectors.tobytes() if hasattr(vectors, "tobytes") else b"".join(row.tobytes() for row in vectors)
    shape = (len(result.rows), result.dimension)
    return written("embeddings", "F32", shape, numbers, releases=json.dumps(releases))


def sanitize(client: Gateway, given_args: argparse.Namespace, api_key: str) -> None:
    """Sanitise the documents of a file into JSON lines, one for each document."""
    path, out = Path(given_args.file), Path(given_args.out)
    rows = documents(path)
    fill = given({"mode": given_args.fill, "epsilon": given_args.epsilon})
    mask = given({"techniques": given_args.technique, "entities": given_args.entity, "profile": given_args.profile})
    options: dict[str, Any] = {name: one for name, one in (("fill", fill), ("mask", mask)) if one}
    options |= given({"policy": given_args.policy})
    asked = {"command": "sanitize", "file": digest(path), "url": given_args.url, **options}
    parts = OutputParts(out, asked, api_key=api_key, name=given_args.name)

    def part(start: int) -> bytes:
        with numbered(range(start, start + _PART)):
            result = client.sanitize(rows[start : start + _PART], idempotency_key=parts.key(start), **options)
        lines = []
        for row in result.rows:
            members = row.model_dump(exclude_none=True) | {"index": start + row.index}
            lines.append(json.dumps(members, ensure_ascii=False).encode() + b"\n")
        return b"".join(lines)

    _check_rows(client, given_args, parts, rows, text_stand_in(rows, options))
    starts = _made(parts, len(rows), part)
    parts.finish(b"".join(parts.read(start) for start in starts))


def _check_rows(
    client: Gateway,
    given_args: argparse.Namespace,
    parts: OutputParts,
    rows: list[dict[str, Any]],
    stand_in: dict[str, Any] | None,
) -> None:
    """Before the first part is sent: raises InvalidRequest for a blank document, and BudgetExhausted if the budget does
    not cover all of them."""
    check_filled(rows)
    if stand_in is not None and not given_args.as_many_as_fit and not parts.begun:
        subjects = len({str(row.get("subject")) for row in rows})
        client._connection.fitting(stand_in, len(rows), as_many_as_fit=False, subjects=subjects)


def _made(parts: OutputParts, count: int, make: Callable[[int], bytes]) -> list[int]:
    """Make the parts that are missing, some at a time. After an error no further part begins."""
    parts.open()
    starts = list(range(0, count, _PART))
    draw, close = meter(count)
    stopped = threading.Event()

    def one(start: int) -> None:
        if parts.has(start) or stopped.is_set():
            return
        try:
            parts.write(start, make(start))
        except BaseException:
            stopped.set()
            raise

    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            waiting = [pool.submit(contextvars.copy_context().run, one, start) for start in starts]
            try:
                for start, each in zip(starts, waiting, strict=True):
                    each.result()
                    draw(min(start + _PART, count), "documents")
            finally:
                stopped.set()
    finally:
        close()
    return starts


Command = Callable[[Gateway, argparse.Namespace, str], None]
_ENDS = """exit codes:
  0 done    1 another error    2 arguments, files or a refused request    3 budget or cap (what was paid is kept)
  4 key     5 no answer (the same command continues)    6 charged, answer lost    7 job failed    130 interrupted"""

_EXAMPLES = {
    "embed": "reviews.jsonl --epsilon 10 --out reviews.safetensors",
    "sanitize": "tickets.jsonl --profile hipaa --fill class_marker --out masked.jsonl",
    "evaluate": "tickets.csv --label-column topic --out report",
    "schema": "rows.csv --label buys --out schema.json",
    "synthesize": "--schema schema.json --data rows.csv --method aim --row-count protected --epsilon 3 --delta 1e-5 "
    "--out made",
    "finetune": "--data tickets.jsonl --label praise --label complaint --plan",
    "predict": "tickets new.jsonl --out labels.jsonl",
    "release": "notes.csv --endpoint embed/sentdp --body '{\"epsilon\": 3}' --text-column note --out notes.parquet",
    "budget": "--mechanism sentence_codes --epsilon 10",
}

_FINETUNE_TERMS = [
    *("method", "model", "sampling", "pairs", "epochs", "steps", "rank"),
    *("pieces_max", "learning_rate", "weight_decay", "class_weights", "class_shares", "subject", "rows", "batch"),
]
_OF_FILES = (UsageError, TableError, OSError, UnicodeDecodeError)
_SYNTHESIS_TERMS = ("subject", "outside", "design", "frequencies", "steps", "bins")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    args = _parser().parse_args(arguments)
    if args.run is None:
        try:
            _schema(args)
        except _OF_FILES as error:
            return _failed(USAGE, _message(error))
        return DONE
    command: Command = args.run
    try:
        key = api_key(args.key_file)
    except (UsageError, OSError) as error:
        return _failed(KEY, _message(error))
    try:
        gateway = Gateway(args.url, key, retry=Retry(attempts=1_000_000, seconds_max=args.wait))
    except ValueError as error:
        return _failed(USAGE, str(error))
    try:
        with (
            gateway as client,
            nullcontext() if args.cap is None else client.budget_cap(args.cap),
        ):
            command(client, args, key)
    except GatewayError as error:
        more = " Use another --name to buy this part again." if isinstance(error, ReleaseGone) else ""
        return _failed(code_of(error), f"{error}.{more}")
    except _OF_FILES as error:
        return _failed(USAGE, _message(error))
    except KeyboardInterrupt:
        return _failed(STOPPED, "interrupted; the same command continues")
    return DONE


def _message(error: Exception) -> str:
    """Without the content of a file, which the message of a decoding error would show."""
    if isinstance(error, UnicodeDecodeError):
        return "a file is not UTF-8"
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)


def _failed(code: int, message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return code


def _release(client: Gateway, args: argparse.Namespace, api_key: str) -> None:
    """Release every row of a file by an endpoint: a file of the results, and the manifest beside it.

    `OUT.job` holds the job of this command until the results are there. The same command follows that job.
    """
    path, out = Path(args.file), Path(args.out)
    if out.exists():
        raise UsageError(f"{out.name} exists; remove it to make it anew")
    if out.suffix not in (".jsonl", ".parquet"):
        raise UsageError("--out ends with .jsonl or .parquet")
    try:
        body = _object(args.body, None)
    except UsageError:
        raise UsageError("--body is no JSON object") from None
    options = given({name: getattr(args, name) for name in ("text_column", "id_column", "subject_column")})
    options |= {"endpoint": args.endpoint, "body": body, "target": {"format": out.suffix[1:]}}
    options["rows"] = "fitting" if args.fitting else "all"
    key = _job_key(api_key, "release", args.name, {**options, "url": args.url}, digest(path))
    mark = out.with_name(out.name + ".job")
    its_key, _, job_id = mark.read_text().partition(" ") if mark.exists() else (key, "", "")
    if its_key != key:
        raise UsageError(f"{mark.name} is of another file or of other parameters; remove it to start over")
    if not job_id:
        rows = _agreed(client, args, options)
        job_id = client.release(args.name, path, row_count=rows, idempotency_key=key, **options).job_id
        _write_whole(mark, f"{key} {job_id}".encode())
    job = client.jobs.get(job_id)
    try:
        done = client.jobs.wait(client.jobs.resume(job) if job.status == "paused" else job, progress=_rate())
    except JobFailed:
        mark.unlink()
        raise
    client.jobs.download(done, out)
    manifest = client.jobs.manifest(done)
    Path(f"{out}.manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    mark.unlink()
    print(f"{manifest['written']} of {manifest['rows']} rows are in {out.name}")
    for problem, count in Counter(row["problem"] for row in manifest["left_out"]).most_common():
        print(f"left out: {count} {problem}")
    if manifest["not_admitted"]:
        print(f"left out: {manifest['not_admitted']} that the budget does not admit")


def _agreed(client: Gateway, args: argparse.Namespace, options: Mapping[str, Any]) -> int:
    """The number of rows, once the user has agreed to their price. Raises BudgetExhausted, UsageError."""
    rows: int | None = args.rows or rows_in(args.file)
    if not rows:
        raise UsageError("give the number of rows by --rows" if rows is None else f"{args.file} holds no row")
    stand_in = {"endpoint": options["endpoint"], "body": options["body"], "source_rows": 1}
    lines = client._connection._cost_lines(stand_in)
    costs = [f"epsilon {line['cost']['epsilon'] * rows:g} of {line['account']}" for line in lines]
    print(f"{rows} rows cost {', '.join(costs) or 'nothing'}", file=sys.stderr)
    if lines and not args.fitting:
        subjects = 1 if args.subject_column is None else 2
        client._connection.fitting(stand_in, rows, as_many_as_fit=False, subjects=subjects)
    if not args.yes:
        if not sys.stdin.isatty():
            raise UsageError("--yes agrees to the price where nobody can be asked")
        print("release them, yes or no [no]? ", end="", file=sys.stderr, flush=True)
        if not sys.stdin.readline().strip().lower().startswith("y"):
            raise UsageError("nothing was released")
    return rows


def _rate() -> Progress:
    """A bar of rows, with how many of them are written in a second, since it is shown."""
    begun: tuple[float, float] | None = None
    shown: tuple[Callable[[int, str], None], Callable[[], None]] | None = None

    def show(state: Job) -> None:
        nonlocal begun, shown
        numbers = state.metrics or {}
        if "rows_written" not in numbers:
            return
        done, now = numbers["rows_written"], time.monotonic()
        begun = begun or (now, done)
        shown = shown or meter(int(numbers["rows"]))
        rate = (done - begun[1]) / max(now - begun[0], 1e-3)
        shown[0](int(done), f"{state.status}, {rate:,.0f} rows/s")

    show.close = lambda: shown[1]() if shown else None  # type: ignore[attr-defined]
    return show


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
    if still_open := placeholders(schema):
        raise UsageError(f"{schema_file.name} leaves open: {', '.join(still_open)}. {LEAK}")
    rows = table(data)
    terms: dict[str, Any] = {"method": args.method, "epsilon": args.epsilon, "delta": args.delta}
    terms |= {"row_count": args.row_count, **given({name: getattr(args, name) for name in _SYNTHESIS_TERMS})}
    key = _job_key(api_key, "synthesize", args.name, terms, digest(schema_file, data))
    with _faults_shown(rows):
        done = _waited(client, client.synthesize(args.name, rows.rows, schema=schema, idempotency_key=key, **terms))
    out = _folder(args.out)
    if rows.is_csv:
        (out / f"{args.name}.csv").write_bytes(client.jobs.sample_csv(done, rows=args.rows))
    else:
        with (out / f"{args.name}.jsonl").open("w", encoding="utf-8") as file:
            for row in client.jobs.sample(done, rows=args.rows):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
    (out / f"{args.name}.safetensors").write_bytes(client.jobs.artifact(done))
    (out / f"{args.name}.html").write_bytes(client.jobs.report(done))
    certificate = (done.result or {}).get("privacy", {})
    (out / f"{args.name}.certificate.json").write_text(json.dumps(certificate, indent=1))


def _evaluate(client: Gateway, args: argparse.Namespace, api_key: str) -> None:
    """Measure mechanisms and policies on own texts: the report, the findings, and a file of the advised policy."""
    data = Path(args.file)
    columns = given({"text": args.text_column, "label": args.label_column, "person": args.person_column})
    rows = _evaluated_rows(table(data), columns)
    options = given({name: getattr(args, name) for name in ("epsilons", "repetitions", "tolerance", "releases")})
    if args.methods is not None:
        options["methods"] = json_file(Path(args.methods))
    key = _job_key(api_key, "evaluate", args.name, {**options, "columns": columns}, digest(data))
    done = _waited(client, client.evaluate(args.name, rows, idempotency_key=key, **options))
    out = _folder(args.out)
    findings = client.jobs.artifact(done)
    (out / f"{args.name}.json").write_bytes(findings)
    (out / f"{args.name}.html").write_bytes(client.jobs.report(done))
    for each in json.loads(findings)["advice"]:
        print(f"{each['name']}: {each['said']}")
        if each["policy_file"]:
            (out / f"{args.name}.policies.toml").write_text(each["policy_file"], encoding="utf-8")
    print(f"the report is {out / args.name}.html")


def _evaluated_rows(found: Table, columns: Mapping[str, str]) -> list[dict[str, str]]:
    """The columns of the file that the gateway takes, under its names."""
    rows = found.rows
    if not isinstance(rows, list):
        with Path(rows).open("rb") as file:
            rows = [json.loads(line) for line in file if line.strip()]
    try:
        return [{name: row[column] for name, column in columns.items()} for row in rows]
    except (KeyError, TypeError):
        raise UsageError(f"a row has not the columns {', '.join(columns.values())}") from None


@contextlib.contextmanager
def _faults_shown(rows: Table) -> Iterator[None]:
    """Print what a gateway finds wrong with the rows, by the lines and names of their file."""
    try:
        yield
    except (BadRow, JobFailed) as error:
        for line in described(error.faults, rows):
            print(line, file=sys.stderr)
        raise


def _schema(args: argparse.Namespace) -> None:
    """Draft the schema of a table from the names of its columns."""
    names = table(Path(args.data)).columns
    if not names:
        raise UsageError("the file has no names of columns")
    if args.label is not None and args.label not in names:
        raise UsageError("--label is no column of the file")
    print(LEAK, file=sys.stderr)
    made = draft(names, label=args.label, ask=input if sys.stdin.isatty() else None)
    text = json.dumps(made, indent=1, ensure_ascii=False)
    if args.out is None:
        print(text)
        return
    out = Path(args.out)
    if out.exists():
        raise UsageError(f"{out.name} exists; remove it to draft it anew")
    out.write_text(text + "\n", encoding="utf-8")


def _finetune(client: Gateway, args: argparse.Namespace, api_key: str) -> None:
    """Train a private classifier: its weights and its card."""
    data, public = Path(args.data), Path(args.public) if args.public else None
    terms = given({name: getattr(args, name) for name in _FINETUNE_TERMS})
    terms |= given({"labels": args.label, "epsilon": args.epsilon, "delta": args.delta})
    if args.plan:
        _show_plan(client, args.name, data, terms)
        return
    if args.epsilon is None or args.delta is None or args.out is None:
        raise UsageError("give --epsilon, --delta and --out; --plan shows what a training costs")
    files = digest(data, *([public] if public else []))
    key = _job_key(api_key, "finetune", args.name, terms, files)
    done = _waited(client, client.finetune(args.name, data, public=public, idempotency_key=key, **terms))
    out = _folder(args.out)
    (out / f"{args.name}.safetensors").write_bytes(client.jobs.artifact(done))
    (out / f"{args.name}.md").write_text(client.jobs.card(done), encoding="utf-8")


_EPSILON_USUAL = 8.0  # of trainings in the literature


def _show_plan(client: Gateway, name: str, data: Path, terms: dict[str, Any]) -> None:
    """Print what the training would be and cost. Nothing is sent of the file but its number of rows."""
    with data.open("rb") as file:
        rows = terms.setdefault("rows", sum(1 for line in file if line.strip()))
    terms.setdefault("epsilon", _EPSILON_USUAL)
    terms.setdefault("delta", 10.0 ** -len(str(rows)))  # below one over the number of rows
    found = client.budget.estimate({"name": name, **terms})
    plan = found.privacy.model_dump()
    shown = {"rows": rows, "epsilon": terms["epsilon"], "delta": terms["delta"]}
    shown |= {part: plan[part] for part in ("method", "batch", "steps", "noise_multiplier")}
    print("\t".join(f"{part} {one:g}" if isinstance(one, float) else f"{part} {one}" for part, one in shown.items()))
    cost = found.accounts[0]
    allowed = "covers it" if found.allowed else "does not cover it"
    print(f"costs epsilon {cost.cost.epsilon:g} of {cost.remaining.epsilon:g} left: the account {allowed}")


def _predict(client: Gateway, args: argparse.Namespace, _: str) -> None:
    """Label the texts of a file by a fine-tuned classifier: JSON lines, one for each text."""
    rows = documents(Path(args.file), ("id", "text", "text_pair"))
    pairs = [row["text_pair"] for row in rows] if all("text_pair" in row for row in rows) else None
    found = client.models.predict(args.name, [row.get("text", "") for row in rows], text_pairs=pairs)
    with Path(args.out).open("w", encoding="utf-8") if args.out else nullcontext(sys.stdout) as file:
        for sent, row in zip(rows, found.data, strict=True):
            scores = dict(zip(found.labels, row.scores, strict=True))
            answer = given({"index": row.index, "id": sent.get("id"), "label": row.label, "scores": scores})
            file.write(json.dumps(answer, ensure_ascii=False) + "\n")


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
    parser.add_argument("--version", action="version", version=version("privacy-gateway-client"))
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
    for name, example in _EXAMPLES.items():
        commands.choices[name].epilog = f"example: privacy-gateway-client {name} {example}"
    return parser


def _texts(commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser) -> None:
    texts = argparse.ArgumentParser(add_help=False, parents=[shared])
    texts.add_argument("file", help="JSON lines with `text`, or one text a line")
    texts.add_argument("--out", required=True)
    texts.add_argument("--name", default="", help="another name makes another release of the same file")
    texts.add_argument(
        "--as-many-as-fit", action="store_true", help="begin although the budget does not cover every document"
    )
    one = commands.add_parser("embed", parents=[texts], help="embed documents into a safetensors file")
    one.add_argument("--epsilon", type=float, required=True, help="of each document")
    for name in ("mechanism", "domain", "subject", "segmentation"):
        one.add_argument(f"--{name}")
    one.set_defaults(run=embed)

    one = commands.add_parser("sanitize", parents=[texts], help="sanitise documents into JSON lines")
    one.add_argument("--fill", help="class_marker, marker, surrogate, metric_dp, dp, top1, topk")
    one.add_argument("--epsilon", type=float, help="of the fills metric_dp and dp")
    one.add_argument("--technique", action="append", help="entity, vocabulary, allow_list, all; may be repeated")
    one.add_argument("--entity", action="append", help="may be repeated")
    one.add_argument("--profile")
    one.add_argument("--policy")
    one.set_defaults(run=sanitize)


def _jobs(commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser) -> None:
    one = commands.add_parser("release", parents=[shared], help="release every row of a large file as one job")
    one.add_argument("file", help="JSON lines, .csv or .parquet; the first two also .gz")
    one.add_argument("--endpoint", choices=["embed/sentdp", "embed/vector", "sanitize"], required=True)
    one.add_argument("--body", default="{}", help="of the endpoint without its documents, as JSON")
    one.add_argument("--text-column", help="default: text")
    one.add_argument("--id-column")
    one.add_argument("--subject-column")
    one.add_argument("--rows", type=int, help="default: those of the file are counted; needed for Parquet")
    one.add_argument("--fitting", action="store_true", help="release the first rows that the budget admits")
    one.add_argument("--yes", action="store_true", help="agree to the price without being asked")
    one.add_argument("--name", default="release", help="another name makes another release of the same file")
    one.add_argument("--out", required=True, help="file for the results, .jsonl or .parquet")
    one.set_defaults(run=_release)

    one = commands.add_parser("evaluate", parents=[shared], help="measure mechanisms and policies on your own texts")
    one.add_argument("file", help=".csv with a header, or JSON lines: 200 to 5,000 texts")
    one.add_argument("--text-column", default="text")
    one.add_argument("--label-column", help="what a classifier learns; without it, clusters stand for labels")
    one.add_argument("--person-column", help="whose text a row is")
    one.add_argument("--methods", help="JSON file with the methods to compare; without it, the gateway's defaults")
    one.add_argument("--epsilons", type=float, nargs="+")
    one.add_argument("--repetitions", type=int)
    one.add_argument("--tolerance", type=float, help="share of the utility without noise that may be lost")
    one.add_argument("--releases", type=int, help="how many releases of one unit you plan")
    one.add_argument("--name", default="evaluation")
    one.add_argument("--out", required=True, help="folder for the report, the findings and the policy")
    one.set_defaults(run=_evaluate)

    one = commands.add_parser("schema", help="draft the schema of a table from the names of its columns")
    one.add_argument("data", help=".csv with a header, or JSON lines")
    one.add_argument("--label", help="the column that synthetic rows shall predict")
    one.add_argument("--out", help="file for the schema; default: print it")
    one.set_defaults(run=None)

    one = commands.add_parser("synthesize", parents=[shared], help="make synthetic rows of a table")
    one.add_argument("--schema", required=True, help="JSON file with the columns")
    one.add_argument("--data", required=True, help=".csv with a header, or JSON lines")
    one.add_argument("--method", choices=["pearl", "marginals", "aim"], required=True)
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
    one.add_argument("--plan", action="store_true", help="show what the gateway would choose and charge, and end")
    one.add_argument("--batch", type=int, help="default: a quarter of the rows")
    one.add_argument("--rows", type=int, help="default: the number of rows of --data")
    one.add_argument("--epochs", type=float)
    one.add_argument("--steps", type=int)
    one.add_argument("--method", choices=["head", "lora", "rgp", "full"])
    one.add_argument("--class-weights", choices=["balanced", "none"])
    one.add_argument("--class-shares", type=float, nargs="+", help="public, in the order of the labels; else counted")
    one.add_argument("--model")
    one.add_argument("--sampling", choices=["poisson", "random_allocation"])
    one.add_argument("--pairs", action="store_true", default=None, help="rows have `text_pair` as well")
    for number in ("rank", "pieces-max"):
        one.add_argument(f"--{number}", type=int)
    for rate in ("learning-rate", "weight-decay"):
        one.add_argument(f"--{rate}", type=float)
    _training(one, "classifier", required=False)
    one.set_defaults(run=_finetune)

    one = commands.add_parser("predict", parents=[shared], help="label texts by a fine-tuned classifier; free")
    one.add_argument("name", help="of the classifier")
    one.add_argument("file", help="JSON lines with `text` (and `text_pair`), or one text a line")
    one.add_argument("--out", help="default: standard output")
    one.set_defaults(run=_predict)


def _training(one: argparse.ArgumentParser, name: str, *, required: bool = True) -> None:
    one.add_argument("--epsilon", type=float, required=required)
    one.add_argument("--delta", type=float, required=required)
    one.add_argument("--subject")
    one.add_argument("--name", default=name, help="another name makes another release of the same file")
    one.add_argument("--out", required=required, help="folder for the results")


if __name__ == "__main__":
    sys.exit(main())
