"""A kind of job: everything that the gateway needs for it, in one class.

To add one, subclass `JobKind` in a file of its own, and name it in the capability of that folder. The endpoint that
creates it, its estimate, its process, its record and its entry in the API page follow from the class.
"""

from abc import ABC
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from core.errors import JobFilesLost
from core.ledger.records import Charge
from core.state.stored_files import ARTIFACTS
from gpu_workers.jobs.protocol import HoldRequested
from service.http.answers import SCHEMAS
from service.http.strict import Strict
from service.jobs.start import StartJob


@dataclass(frozen=True)
class JobPrice:
    """What a job costs.

    charges: what is held before the job is created; empty for a kind that is charged in parts.
    by_parts: whether its process holds parts (`part_charges`).
    fields: what the job's process gets in addition to the request's fields, such as the plan that is charged.
    facts: what `POST /budget/estimate` shows beside the charge.
    """

    charges: Sequence[Charge]
    fields: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    by_parts: bool = False


@dataclass(frozen=True)
class OpenJob:
    """A job's folder, its key, and the fields of its request."""

    folder: Path
    key: bytes = field(repr=False)
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Made:
    """Files that a job has made, by suffix, and the area and name that they get. `facts`: as of `StoredEntry`.
    `expires`: with the job's record."""

    area: str
    name: str
    files: Mapping[str, Path]
    facts: bytes | None = field(default=None, repr=False)
    expires: bool = True


@dataclass(frozen=True)
class Outputs:
    """The files that a job's process writes on its machine. A kind writes those that it has; the gateway stores them in
    the blob store when the job has ended."""

    owner: str
    artifact: Path

    @property
    def job_id(self) -> str:
        return self.artifact.stem

    @property
    def card(self) -> Path:
        """The artifact's description, in Markdown."""
        return self.artifact.with_suffix(".md")

    @property
    def manifest(self) -> Path:
        """What a bulk release has written, as JSON."""
        return self.artifact.with_suffix(".json")

    @property
    def report(self) -> Path:
        """The page about the artifact."""
        return self.artifact.with_suffix(".html")


class JobKind(ABC):
    """One kind of job. Instances hold the narrow parts of the gateway that the kind needs.

    name: stands in `POST /jobs/NAME` and in the job's record.
    summary, description: for the API page.
    fields: the request's members besides its rows; of JSON lines, the query.
    body: the request as JSON, `fields` with rows.
    rows_description: what a row of JSON lines is, for the API page.
    entry_point: what the job's process runs, as `module:function`; a `gpu_workers.jobs.protocol.JobFunction`.
    shared: whether the operator may create one with the admin key, for all tenants.
    estimate: the body that `POST /budget/estimate` takes, None for a kind that charges nothing.
    kept_limit: the setting that limits how many results a tenant keeps by name, None where results have no names.
    artifacts: the media types of artifacts, by the suffixes of their files.
    uploads: the content types of requests whose bodies are the rows and whose queries are the fields, and what each of
        them says of the fields.
    marks: members of that body that no other endpoint's body has; the estimate distinguishes bodies by them.
    is_uploaded: whether `POST /jobs/NAME` creates one from an upload; another endpoint does so otherwise.
    keeps: whether what a job has done stands if it fails or is cancelled: see `partial`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    description: ClassVar[str]
    fields: ClassVar[type[Strict]]
    body: ClassVar[type[Strict]]
    rows_description: ClassVar[str]
    entry_point: ClassVar[str]
    shared: ClassVar[bool] = False
    estimate: ClassVar[type[Strict] | None] = None
    artifacts: ClassVar[Mapping[str, str]] = {".safetensors": "application/octet-stream"}
    uploads: ClassVar[Mapping[str, Mapping[str, Any]]] = {"application/x-ndjson": {}, "application/jsonl": {}}
    marks: ClassVar[frozenset[str]] = frozenset()
    kept_limit: ClassVar[str | None] = None
    is_uploaded: ClassVar[bool] = True
    keeps: ClassVar[bool] = False

    def rows(self, body: Any) -> Iterable[dict[str, Any]]:
        """The rows of a JSON body, in the form of JSON lines, of a kind that is uploaded."""
        raise NotImplementedError

    def needs_rows(self, fields: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Whether a request without rows is refused."""
        return True

    def resolve(self, owner: str, fields: Any) -> Any:  # noqa: ARG002 - for kinds that need the owner
        """Check the fields and fill in the defaults that depend on the gateway. Runs in a thread.

        `fields` may be the whole body; its rows are then checked as well. Raises InvalidInput, PolicyEnforced,
        BadCorpus.
        """
        return fields

    async def price(self, owner: str, fields: Mapping[str, Any]) -> JobPrice | None:  # noqa: ARG002
        """The price of a job of `owner` with these resolved fields; None for a kind that charges nothing."""
        return None

    def part_charges(self, fields: Mapping[str, Any], part: HoldRequested) -> Sequence[Charge]:
        """What a part of the job costs, of a kind that is charged in parts. Looks at the numbers of its rows alone."""
        raise NotImplementedError

    @property
    def start(self) -> StartJob | None:
        """What starts an attempt, of a kind that runs in the gateway itself."""
        return None

    def can_run(self, label: str) -> bool:  # noqa: ARG002 - for kinds that depend on it
        """Whether this gateway can run a job with this label. Others wait for a gateway that can."""
        return True

    async def kept(self, owner: str) -> set[str]:  # noqa: ARG002
        """The names of the results that the owner keeps."""
        return set()

    def installs(self, fields: Mapping[str, Any]) -> tuple[str, str] | None:  # noqa: ARG002
        """The area and the name under which requests find the artifact, beside the job's own; None for neither."""
        return None

    def artifact_suffix(self, fields: Mapping[str, Any]) -> str:  # noqa: ARG002
        """The suffix of the artifact's file: one of `artifacts`."""
        return next(iter(self.artifacts))

    def made(self, job: OpenJob, outputs: Outputs) -> list[Made]:
        """What a job has made, after its process has ended. Runs in a thread. Raises JobFilesLost."""
        paths = (outputs.artifact, outputs.card, outputs.report, outputs.manifest)
        files = {path.suffix: path for path in paths if path.is_file()}
        if outputs.artifact.suffix not in files:
            raise JobFilesLost
        installed = self.installs(job.fields)
        found = [Made(ARTIFACTS, outputs.job_id, files)]
        return found if installed is None else [*found, Made(*installed, files, expires=False)]

    def partial(self, job: OpenJob) -> dict[str, Any]:
        """The result of a job that failed or was cancelled, of a kind that keeps it. Runs in a thread. Raises
        JobFilesLost."""
        raise NotImplementedError

    def spec(self, fields: Mapping[str, Any], outputs: Outputs) -> Any:
        """The specification for the job's process, from the stored fields of the job.

        Raises InvalidInput, KeyError or ValueError for fields that this version or its settings no longer allow.
        """
        raise NotImplementedError

    async def specification(self, fields: Mapping[str, Any], outputs: Outputs) -> Any:
        """As `spec`, which it calls unless a kind has to look something up. Also raises WorkerCold and
        StoreUnavailable: it is called again."""
        return self.spec(fields, outputs)

    @property
    def openapi(self) -> dict[str, Any]:
        """The request's body, for the API page (`DescribedAPI`)."""
        schema = self.body.model_json_schema(ref_template=SCHEMAS)
        lines = {"type": "string", "description": f"{self.rows_description} The other members go into the query."}
        uploads = {media: {"schema": lines} for media in self.uploads if media != "application/jsonl"}
        return {"required": True, "content": {"application/json": {"schema": schema}, **uploads}}


class JobKinds(dict[str, JobKind]):
    """The kinds of one gateway, by name."""

    def __init__(self, kinds: Iterable[JobKind]) -> None:
        super().__init__((kind.name, kind) for kind in kinds)
