"""The interface between the gateway and the code of a job: orders, messages, files, checkpoints and results.

The messages pass over a socket that only the gateway and the process of the job can access, or as bounded JSON of the
forms that their fields declare (`gpu_workers.remote.wire`). The files are in the job's folder; a checkpoint holds the
state that one attempt stores for the next one.

Guarantee: a name that `is_plain` accepts stays in the folder that it is joined to. `snapshot` links whole files that
the folder had at one moment, while the job's process may replace them.
"""

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator

from core.errors import BadCorpus, JobFailed, JobFilesLost
from core.files.disk import FileVersion, file_version, sync_folder
from core.files.encrypted_file import decrypt, encrypt, read_encrypted
from core.redis.names import check_label

BUDGET = "budget-exhausted"  # why a part is not held that the budget does not admit
INPUT = "input"  # the file that holds the uploaded data
# How a job shares the cores with requests: see `gpu_workers/jobs/process.py`.
Priority = Literal["idle", "low", "normal"]


class Charge(Protocol):
    """The job's cost in the ledger. Kinds that charge nothing use none of this.

    A job that is charged in parts first calls `hold` for each part. When it has done so for all of them, it draws one
    part after another, each after its charge. What is never charged is refunded at the end of the job.
    """

    def __call__(self, part: int | None = None, /) -> None:
        """Return once the cost of the job, or of this part, is spent. Draw noise only after that."""

    def ask(self, part: int, /) -> None:
        """Ask for the charge of a part that the job is about to draw. `charge(part)` then waits less."""

    def hold(self, part: int, rows: int, subjects: Mapping[str, int] | None = None, /) -> bool:
        """Hold the cost of a part: of its rows, or of as many rows of each subject. A repeated call changes nothing.
        Returns False if the budget does not admit it. Raises JobFailed for whatever else rules it out."""


class ReportProgress(Protocol):
    """Reports a stage (a fixed label), the fraction of the whole job in [0, 1], and metrics that are public or
    released, with the names of `core.state.jobs.METRICS`. A metric keeps its last value until it is reported again.
    """

    def __call__(self, stage: str, fraction: float, metrics: Mapping[str, float] | None = None, /) -> None: ...


@dataclass(frozen=True)
class JobOrder:
    """One job.

    entry_point: the `JobFunction` that runs it, as `module:function`. It comes from the gateway's registry of kinds.

    folder: holds the job's encrypted files, under `key`.

    spec: the parameters, in the form that the kind of job defines.

    memory_bytes_max: what the process may allocate; 0 for no limit. See `gpu_workers/jobs/process.py`.
    """

    entry_point: str
    folder: Path
    key: bytes = field(repr=False)
    spec: Any
    priority: Priority = "idle"
    memory_bytes_max: int = 0

    def received(self) -> Iterator[bytes]:
        """Yield the uploaded data in chunks. Raises JobFilesLost."""
        return read_encrypted(self.folder / INPUT, self.key, INPUT)


Count = Annotated[int, Field(ge=0, le=10**12)]


class Wire(BaseModel):
    """The base of what passes as JSON. Its configuration is also that of the messages within it."""

    model_config = ConfigDict(
        extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True, revalidate_instances="always"
    )


class _ProblemFields(Wire):
    model_config = ConfigDict(from_attributes=True)

    code: str = Field(max_length=64)
    detail: str = Field(max_length=1000)
    reason: str = Field(max_length=64)
    line: Count | None
    count: Count | None
    faults: Sequence[Mapping[str, Any]] = Field(max_length=1000)


def _problem(value: Any) -> JobFailed:
    fields = _ProblemFields.model_validate(value)
    kind = {each.code: each for each in (BadCorpus, JobFilesLost)}.get(fields.code, JobFailed)
    return kind(**fields.model_dump(exclude={"code"}))


# An error whose words are fixed. Its code selects the class.
Problem = Annotated[JobFailed, PlainValidator(_problem), PlainSerializer(_ProblemFields.model_validate, _ProblemFields)]


@dataclass(frozen=True)
class JobProgress:
    stage: Annotated[str, AfterValidator(check_label)]
    fraction: Annotated[float, Field(ge=0, le=1)]
    metrics: Mapping[str, int | float] | None = None


@dataclass(frozen=True)
class HoldRequested:
    """The job knows the size of a part: its rows, and of how many rows of each subject it consists, if it has any."""

    part: Count
    rows: Count
    subjects: Mapping[str, Count] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Held:
    """The gateway's answer: the job owns the hold of the part, or why not."""

    part: Count
    problem: Problem | None = None


@dataclass(frozen=True)
class ChargeRequested:
    """The job is about to draw noise, of this part or, for None, at all. It draws none before it receives `Charged`."""

    part: Count | None


@dataclass(frozen=True)
class Charged:
    """The gateway's answer: the ledger has spent the hold of the job or the part, in this attempt or an earlier one."""

    part: Count | None


@dataclass(frozen=True)
class Succeeded:
    """`result` holds counts, names and fixed words, never text."""

    result: dict[str, Any]


@dataclass(frozen=True)
class Failed:
    problem: Problem


# Runs a job and returns its result: counts, names and fixed words, never text. Raises JobFailed.
JobFunction = Callable[[JobOrder, ReportProgress, Charge], dict[str, Any]]


Plan = TypeVar("Plan")


@dataclass(frozen=True)
class Sharded(Generic[Plan]):
    """A `JobFunction` whose parts several processes may draw, each in a folder of its own with the same files.

    prepare: scan the input, hold every part, and return the plan, which it keeps as an encrypted checkpoint. Where the
        folder has a plan, it returns that one, reads no input and asks for nothing.
    missing: the numbers of the parts that the folder has not.
    draw: draw these parts, each after its charge, and write each to encrypted files of its own. It may be repeated.
        Without parts, it reports how far the job is.
    finish: make the result of all parts.
    """

    prepare: Callable[[JobOrder, ReportProgress, Charge], Plan]
    missing: Callable[[JobOrder, Plan], Sequence[int]]
    draw: Callable[[JobOrder, Plan, Sequence[int], ReportProgress, Charge], None]
    finish: Callable[[JobOrder, Plan], dict[str, Any]]

    def __call__(self, order: JobOrder, report: ReportProgress, charge: Charge) -> dict[str, Any]:
        """Run all of it in this process."""
        plan = self.prepare(order, report, charge)
        self.draw(order, plan, self.missing(order, plan), report, charge)
        return self.finish(order, plan)


OWNER, RUN_LOCK = "owner", "run.lock"  # of one machine
KEY, SPEC = "key", "spec"  # of the gateway: the wrapped key, and the fields of the request
OUTPUTS = "out"  # the folder of what a job has made
_OF_THIS_MACHINE = frozenset({OWNER, RUN_LOCK})
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_SNAPSHOTS_MAX = 10


def is_plain(name: object) -> bool:
    """Whether this is the name of a file of a job: no path, and no draft, whose name begins with a dot."""
    return isinstance(name, str) and _PLAIN.fullmatch(name) is not None


def versions(folder: Path) -> dict[str, FileVersion]:
    """The versions of the folder's own files that another gateway needs, by name."""
    found = {}
    for path in sorted(folder.iterdir()):
        if is_plain(path.name) and path.name not in _OF_THIS_MACHINE and path.is_file():
            version = file_version(path)
            if version is not None:
                found[path.name] = version
    return found


def snapshot(folder: Path, linked: Path) -> dict[str, FileVersion]:
    """Link the files of one moment into the new folder `linked`. A file is replaced by renaming, never changed, so a
    link keeps its bytes. Raises BlockingIOError if the files changed each time that they were looked at."""
    for _ in range(_SNAPSHOTS_MAX):
        found = versions(folder)
        linked.mkdir(mode=0o700)
        try:
            for name in found:
                (linked / name).hardlink_to(folder / name)
        except FileNotFoundError:
            pass
        else:
            if versions(folder) == found:
                return found
        shutil.rmtree(linked)
    raise BlockingIOError("the files of the job do not stay the same")


Part = TypeVar("Part")


@dataclass(frozen=True)
class EncryptedCheckpoint:
    """One state, of a training or a release, in the job's encrypted folder."""

    order: JobOrder
    label: str

    def read(self) -> bytes | None:
        """Raises JobFilesLost if the file was modified."""
        path = self.order.folder / self.label
        return decrypt(path, self.order.key, self.label) if path.exists() else None

    def write(self, state: bytes) -> None:
        """Write the state. On return, the state and its directory entry are on disk."""
        encrypt(self.order.folder / self.label, self.order.key, self.label, state)
        sync_folder(self.order.folder)


def kept_part(
    checkpoint: EncryptedCheckpoint,
    make: Callable[[], Part],
    *,
    packed: Callable[[Part], bytes],
    unpacked: Callable[[bytes], Part],
) -> Part:
    """A part of the work: that of an earlier attempt, or else a new one, which is kept. Raises JobFilesLost."""
    state = checkpoint.read()
    if state is None:
        part = make()
        checkpoint.write(packed(part))
        return part
    try:
        return unpacked(state)
    except (ValueError, KeyError, TypeError):
        raise JobFilesLost from None


def publish(save: Callable[[Path], None], card: str, targets: tuple[str, ...]) -> None:
    """Put a file and its card at the target and replace each atomically. `save` writes the file atomically."""
    (target,) = map(Path, targets)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    save(target)
    partial_card = target.with_suffix(".md.partial")
    partial_card.write_text(card)
    partial_card.replace(target.with_suffix(".md"))


def card(title: str, text: Sequence[str], facts: Mapping[str, object], result: Mapping[str, Any], *end: str) -> str:
    """A title, lines of text, a table of facts, and the rows that the job did not use, from its warnings."""
    warnings = [f"* {row['code']}: {row['count']} of {result['rows']} rows" for row in result["warnings"]]
    table = ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in facts.items())]
    rest = ["## What was left out", "", *(warnings or ["Nothing."]), "", *end]
    return "\n".join([f"# {title}", "", *text, "", *table, "", *rest])


def cell(value: str) -> str:
    """Escape a value for a table cell."""
    return " ".join(value.split()).replace("|", "\\|")
