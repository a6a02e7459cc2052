"""What a job has made: stored and sealed before the job ends, so that there is one outcome, whoever made it.

Guarantee: an outcome is sealed once, by the attempt that holds the job at that moment: its name is set in the job's
record. Every later attempt publishes that one and draws nothing. What an attempt has stored that lost its job gets no
name, whatever it made and however late. So no second draw of noise leaves the gateway for one charge.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from core.job_errors import JobFilesLost
from core.ledger.job_records import JobRecord
from core.ledger.jobs import JobStore
from core.ledger.stored_files import ARTIFACTS, NamedEntry, StoredEntry
from service.files.stored import StoredFiles
from service.jobs.blobs import JobBlobs
from service.jobs.kind import Outputs


@dataclass(frozen=True)
class SealedOutcome:
    """The result of a job, and the names that its files get."""

    result: Mapping[str, Any]
    files: Sequence[NamedEntry]

    def packed(self) -> bytes:
        files = [[each.area, each.name, each.entry.as_json()] for each in self.files]
        return orjson.dumps({"result": self.result, "files": files}, option=orjson.OPT_SORT_KEYS)

    @classmethod
    def unpacked(cls, content: bytes) -> SealedOutcome:
        value = orjson.loads(content)
        return cls(
            value["result"],
            [NamedEntry(area, name, StoredEntry.of_json(entry)) for area, name, entry in value["files"]],
        )


@dataclass(frozen=True)
class StoredOutcome:
    """An outcome in the blob store, under a name. It stands once the job's record has that name."""

    name: str
    outcome: SealedOutcome


async def sealed_outcome(blobs: JobBlobs, job: JobRecord) -> SealedOutcome | None:
    """The outcome that the job publishes, if one is sealed. Raises BlobMissing, JobFilesLost, StoreUnavailable."""
    if job.outcome is None:
        return None
    return SealedOutcome.unpacked(await blobs.outcome(job.owner, job.job_id, job.outcome))


async def store_outcome(
    blobs: JobBlobs,
    stored: StoredFiles,
    job: JobRecord,
    outputs: Outputs,
    result: Mapping[str, Any],
    *,
    installed: tuple[str, str] | None,
    retention_s: float,
) -> StoredOutcome:
    """Store what the process has written. What is never sealed is removed as an orphan.

    `installed`: area and name under which requests find the artifact. Raises JobFilesLost, StoreUnavailable,
    StorageFull.
    """
    paths = {path.suffix: path for path in (outputs.artifact, outputs.card, outputs.report)}
    files = await asyncio.to_thread(lambda: {suffix: path for suffix, path in paths.items() if path.is_file()})
    if outputs.artifact.suffix not in files:
        raise JobFilesLost
    ends_ms = int((time.time() + retention_s) * 1000)
    named = [await stored.upload(job.owner, ARTIFACTS, job.job_id, files, ends_ms=ends_ms)]
    if installed is not None:
        area, name = installed
        named.append(await stored.upload(job.owner, area, name, files))
    outcome = SealedOutcome(result, named)
    return StoredOutcome(await blobs.put_outcome(job.owner, job.job_id, outcome.packed()), outcome)


async def seal_outcome(
    jobs: JobStore, blobs: JobBlobs, job: JobRecord, run: str, made: StoredOutcome
) -> SealedOutcome | None:
    """Seal a stored outcome. Returns the outcome that stands; None if `run` does not hold the job any more.

    Safe to repeat after a lost reply. Raises LedgerUnavailable, UnknownJob; as `sealed_outcome`.
    """
    standing = await jobs.seal(job.owner, job.job_id, run=run, outcome=made.name)
    if standing == made.name:
        return made.outcome
    return await sealed_outcome(blobs, replace(job, outcome=standing))
