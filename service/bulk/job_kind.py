"""The job of a bulk release: the body of an endpoint for millions of documents, from a source to a target.

Guarantee: that of the endpoint, for each document. The cost of every row is held before the first one is drawn, each
part of 1,000 rows is charged before it is drawn, and what was not begun is refunded (`gpu_workers/bulk/job.py`).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from pydantic import Field

from core.accounting.events import Adjacency, Guarantee, PrivacyEvent, Unit
from core.errors import InvalidInput
from core.ledger.records import Charge
from gpu_workers.bulk.job import BulkSpec
from gpu_workers.bulk.stores import StoreAccess
from gpu_workers.handlers.options import files_of
from gpu_workers.jobs.protocol import HoldRequested
from service.bulk.releasers import BulkDocuments, BulkEndpoint, BulkSanitized, BulkTexts, Prepared
from service.bulk.schemas import SourceBody, TargetBody, check_installed
from service.bulk.stores import BulkStores
from service.capability import Capability
from service.config.data_dir import NAME
from service.config.settings import Settings
from service.config.worker_options import handler_factory
from service.domains.store import DomainStore
from service.http.strict import Strict
from service.jobs.kind import JobKind, JobPrice, Outputs
from service.parts import Parts
from service.releases.pipeline import without_guarantee
from service.sanitize.service import SanitizeService
from service.sentdp.service import SentDPService
from service.vectors.service import VectorService

_MEDIA = {".jsonl": "application/x-ndjson", ".parquet": "application/vnd.apache.parquet", ".json": "application/json"}
_UPLOADS = {
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "text/csv": "csv",
    "application/vnd.apache.parquet": "parquet",
}


class BulkRequest(Strict):
    """Body of `POST /jobs/release`. With an upload, its members are the query and the body is the documents."""

    name: str = Field(pattern=rf"^{NAME}$", description="A label of the job.")
    endpoint: Literal["embed/sentdp", "embed/vector", "sanitize"]
    body: dict[str, Any] = Field(description='The endpoint\'s body without its documents, such as {"epsilon": 3}.')
    source: SourceBody
    target: TargetBody = TargetBody()
    rows: Literal["all", "fitting"] = Field(
        "all",
        description="Where the budget does not admit all rows: `all` releases none, `fitting` the first parts of 1,000 "
        "rows that it admits.",
    )


class BulkEstimate(Strict):
    """What the estimate needs of a bulk release: its endpoint, its body, and how many rows."""

    endpoint: Literal["embed/sentdp", "embed/vector", "sanitize"]
    body: dict[str, Any]
    source_rows: int = Field(ge=1, le=10**9)


class BulkKind(JobKind):
    """Guarantee: that of the endpoint, for each document."""

    name = "release"
    summary = "Release the documents of an upload or of a store by an endpoint, in parts"
    description = (
        "The body of `/embed/sentdp`, `/embed/vector` or `/sanitize` without its documents, a source and a target. An "
        "upload (JSON lines, CSV or Parquet, by its content type) is the body, and the members are the query. All rows "
        "are priced and held before the first is drawn; what a cancelled job has not begun is refunded."
    )
    fields = BulkRequest
    body = BulkRequest
    rows_description = "The documents, a row each."
    entry_point = "gpu_workers.bulk.job:JOB"
    artifacts = _MEDIA
    uploads = {media: {"source": {"upload": True, "format": format}} for media, format in _UPLOADS.items()}  # noqa: RUF012
    estimate = BulkEstimate
    marks = frozenset({"source_rows"})

    def __init__(self, settings: Settings, *, endpoints: Iterable[BulkEndpoint], stores: BulkStores) -> None:
        self._settings = settings
        self._endpoints = {each.name: each for each in endpoints}
        self._stores = stores

    def rows(self, body: BulkRequest) -> Iterable[dict[str, Any]]:
        """None: they come from the source. Raises InvalidInput for an upload, which is a body of its own."""
        if body.source.store is None:
            said = "an upload is the body of the request: JSON lines, CSV or Parquet, with the members as its query"
            raise InvalidInput(said, field="source.upload")
        return ()

    def needs_rows(self, fields: Mapping[str, Any]) -> bool:
        return fields["source"]["store"] is None

    def resolve(self, owner: str, fields: Any) -> Any:
        """Raises InvalidInput for a store that the tenant may not use, and for Parquet where it is not installed."""
        if isinstance(fields, BulkRequest):
            self._access(owner, fields.model_dump())
            check_installed(fields.source.read_format, field="source.format")
            check_installed(fields.target.format, field="target.format")
        return fields

    async def price(self, owner: str, fields: Mapping[str, Any]) -> JobPrice | None:
        """What all rows of an estimate cost. The price of a job follows from the rows that its process finds."""
        found = await self._prepared(owner, fields)
        charges = found.price.charges
        events = [asdict(charge.event) for charge in charges]
        privacy = without_guarantee(found.price.facts)["privacy"]
        if charges:
            privacy = {**charges[0].event.privacy_block(), **found.price.facts}
        own = {"events": events, "privacy": privacy, "subject": found.subject}
        if "source_rows" not in fields:
            return JobPrice((), own, by_parts=bool(events))
        if not charges:
            raise InvalidInput("this release costs nothing", field="body.fill.mode")
        rows = fields["source_rows"]
        return JobPrice([Charge(each.event, found.subject, times=rows) for each in charges], facts=found.price.facts)

    def part_charges(self, fields: Mapping[str, Any], part: HoldRequested) -> Sequence[Charge]:
        of_subjects = part.subjects or {fields["subject"]: part.rows}
        return [
            Charge(_event(event), subject, times=rows)
            for event in fields["events"]
            for subject, rows in of_subjects.items()
        ]

    def artifact_suffix(self, fields: Mapping[str, Any]) -> str:
        return ".json" if fields["target"]["store"] else f".{fields['target']['format']}"

    async def specification(self, fields: Mapping[str, Any], outputs: Outputs) -> BulkSpec:
        """Raises InvalidInput if what was priced is not what the settings and policies of now make of the body."""
        found = await self._prepared(outputs.owner, fields)
        if [charge.event for charge in found.price.charges] != list(map(_event, fields["events"])):
            raise InvalidInput("the price of the release has changed")
        settings, source = self._settings, SourceBody.model_validate(fields["source"])
        store, target = await asyncio.to_thread(self._access, outputs.owner, fields)
        return BulkSpec(
            release=outputs.artifact.stem,
            artifact=outputs.artifact,
            handler=handler_factory(found.role, settings, settings.devices[0], threads=settings.job_threads),
            releaser=found.releaser,
            columns=source.columns.columns(),
            format=source.read_format,
            chars_max=settings.document_chars_max,
            target_format=fields["target"]["format"],
            charged=bool(fields["events"]),
            fitting=fields["rows"] == "fitting",
            facts={"endpoint": fields["endpoint"], "privacy": fields["privacy"]},
            store=store,
            keys=source.keys,
            prefix=source.prefix or "",
            target=target,
        )

    async def _prepared(self, owner: str, fields: Mapping[str, Any]) -> Prepared:
        """Raises InvalidInput, also for files of a tenant where jobs run on a cluster, which has none of them."""
        try:
            found = await self._endpoints[fields["endpoint"]].prepared(owner, fields["body"])
        except InvalidInput as error:  # its field is that of the endpoint's request
            if error.field is not None and not error.field.startswith("body."):
                error.field = f"body.{error.field}"
            raise
        if self._settings.jobs_on == "ray" and any(files_of(getattr(found.releaser, "task", None))):
            said = (
                "a bulk release on a cluster cannot use your own domains, models or recognisers; use the shipped ones"
            )
            raise InvalidInput(said, field="body")
        return found

    def _access(
        self, owner: str, fields: Mapping[str, Any]
    ) -> tuple[StoreAccess | None, tuple[StoreAccess, str] | None]:
        """The stores of the source and the target. Raises InvalidInput."""
        source, target = fields["source"]["store"], fields["target"]["store"]
        found = None if source is None else self._stores.find(source, owner, "read", field="source.store")
        if target is None:
            return found, None
        return found, (self._stores.find(target, owner, "write", field="target.store"), fields["target"]["prefix"])


def _event(stored: Mapping[str, Any]) -> PrivacyEvent:
    """The event of `asdict`, also after JSON."""
    words = {
        "unit": Unit(stored["unit"]),
        "adjacency": Adjacency(stored["adjacency"]),
        "guarantee": Guarantee(stored["guarantee"]),
    }
    return PrivacyEvent(**{**stored, **words})


def _kind(parts: Parts) -> BulkKind:
    settings = parts[Settings]
    return BulkKind(
        settings,
        endpoints=[
            BulkDocuments(settings, parts[SentDPService], parts[DomainStore]),
            BulkTexts(parts[VectorService]),
            BulkSanitized(parts[SanitizeService]),
        ],
        stores=BulkStores.of_settings(settings),
    )


CAPABILITY = Capability(name="bulk", job_kinds=lambda parts: [_kind(parts)])
