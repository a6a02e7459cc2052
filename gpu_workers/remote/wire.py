"""What passes between a process on a cluster and the gateway that holds its job.

The order goes to the process as a pickle, which trusts its gateway. Everything that the process sends is JSON, in the
forms of this module, and bounded; the gateway unpickles nothing.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from core.errors import BadCorpus, JobFailed, JobFilesLost
from core.redis.names import check_label
from gpu_workers.jobs import protocol
from gpu_workers.jobs.manifests import Listed

PREFIX = "/internal/jobs"
BODY_BYTES_MAX = 4 * 1024 * 1024  # the list of 20,000 files
MESSAGES_MAX = 1000  # of one request
BEAT_S = 1.0  # between two requests of a process that has nothing to say
MADE = "made-"  # the name of an encrypted file of what the job has made begins with it

Count = Annotated[int, Field(ge=0, le=10**12)]


class Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True)


class RemoteProblem(Wire):
    """A `JobFailed`, whose words are fixed."""

    code: str = Field(max_length=64)
    detail: str = Field(max_length=1000)
    reason: str = Field(max_length=64)
    line: Count | None
    count: Count | None
    faults: list[dict[str, Any]] = Field(max_length=1000)

    @classmethod
    def of(cls, error: JobFailed) -> "RemoteProblem":
        faults = [dict(fault) for fault in error.faults]
        return cls(
            code=error.code, detail=error.detail, reason=error.reason, line=error.line, count=error.count, faults=faults
        )

    def error(self) -> JobFailed:
        kind = {each.code: each for each in (BadCorpus, JobFilesLost)}.get(self.code, JobFailed)
        return kind(self.detail, reason=self.reason, line=self.line, count=self.count, faults=self.faults)


class ProgressReport(Wire):
    stage: Annotated[str, AfterValidator(check_label)]
    fraction: float = Field(ge=0, le=1)
    metrics: dict[str, int | float] | None


class Hold(Wire):
    part: Count
    rows: Count
    subjects: dict[str, Count] | None


class Message(Wire):
    """One message of `gpu_workers.jobs.protocol`, in either direction. `part` None: the charge of the whole job."""

    progress: ProgressReport | None = None
    hold: Hold | None = None
    charge: tuple[Count | None] | None = None
    charged: tuple[Count | None] | None = None
    held: Count | None = None
    result: dict[str, Any] | None = None
    problem: RemoteProblem | None = None

    @classmethod
    def of(cls, message: Any) -> "Message":
        match message:
            case protocol.JobProgress(stage, fraction, metrics):
                return cls(
                    progress=ProgressReport(
                        stage=stage, fraction=fraction, metrics=None if metrics is None else dict(metrics)
                    )
                )
            case protocol.HoldRequested(part, rows, subjects):
                return cls(hold=Hold(part=part, rows=rows, subjects=None if subjects is None else dict(subjects)))
            case protocol.ChargeRequested(part):
                return cls(charge=(part,))
            case protocol.Charged(part):
                return cls(charged=(part,))
            case protocol.Held(part, problem):
                return cls(held=part, problem=None if problem is None else RemoteProblem.of(problem))
            case protocol.Succeeded(result):
                return cls(result=result)
            case protocol.Failed(problem):
                return cls(problem=RemoteProblem.of(problem))
        raise TypeError("no message of a job")

    @property
    def is_outcome(self) -> bool:
        return self.result is not None or (self.problem is not None and self.held is None)

    def message(self) -> Any:
        """What `of` was given. Raises ValueError for no message."""
        if self.progress is not None:
            return protocol.JobProgress(self.progress.stage, self.progress.fraction, self.progress.metrics)
        if self.hold is not None:
            return protocol.HoldRequested(self.hold.part, self.hold.rows, self.hold.subjects)
        if self.charge is not None:
            return protocol.ChargeRequested(*self.charge)
        if self.charged is not None:
            return protocol.Charged(*self.charged)
        if self.held is not None:
            return protocol.Held(self.held, None if self.problem is None else self.problem.error())
        if self.result is not None:
            return protocol.Succeeded(self.result)
        if self.problem is not None:
            return protocol.Failed(self.problem.error())
        raise ValueError("no message")


class Exchanged(Wire):
    """Messages from number `first` on. A repeated request changes nothing: `seen` counts the answers that arrived.
    `waits`: answer once there is a further one, or after BEAT_S."""

    first: Count
    messages: list[Message] = Field(max_length=MESSAGES_MAX)
    seen: Count
    waits: bool


class RemoteAnswers(Wire):
    answers: list[Message]


class CheckpointReport(Wire):
    files: dict[str, tuple[str, Count]] = Field(max_length=20_000)


class ShardToken(Wire):
    """A token that one further process of the attempt exchanges for a session."""

    token: str = Field(max_length=64)


@dataclass(frozen=True)
class RemoteOrder:
    """What the token is exchanged for, as a pickle. `secret`: of the session. `files`: those of the job, below `prefix`
    in the blob store. `patience_s`: without an answer of the gateway for so long, the process ends."""

    order: protocol.JobOrder
    secret: str = field(repr=False)
    prefix: str
    files: Listed
    patience_s: float


def checked_address(address: str, name: str, *, plain_http: bool) -> str:
    """Raises ValueError unless this is https://HOST..., or http:// where it is permitted or stays on this machine."""
    try:
        found = urlsplit(address)
        usable = found.scheme in ("http", "https") and bool(found.hostname) and "@" not in found.netloc
        usable = usable and not (found.query or found.fragment) and (found.port is None or found.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"{name} is https://HOST:PORT or http://HOST:PORT, without credentials")
    if found.scheme == "http" and not plain_http and found.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise ValueError(f"{name} is without TLS: use https://, or set RAY_PLAIN_HTTP in a network of your own")
    return address.rstrip("/")
