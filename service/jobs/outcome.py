"""What a job has made: stored and sealed before the job ends, so that there is one outcome, whoever made it.

Guarantee: the first attempt that seals an outcome decides it, by a blob that is created once. Every other attempt of
the same job publishes that one, so no second draw of noise leaves the gateway for one charge.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from core.job_errors import JobFilesLost
from core.ledger.job_records import JobRecord
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


async def sealed_outcome(blobs: JobBlobs, job: JobRecord) -> SealedOutcome | None:
    """The outcome that an earlier attempt has sealed. Raises JobFilesLost, StoreUnavailable."""
    content = await blobs.sealed(job.owner, job.job_id)
    return None if content is None else SealedOutcome.unpacked(content)


async def seal_outcome(
    blobs: JobBlobs,
    stored: StoredFiles,
    job: JobRecord,
    outputs: Outputs,
    result: Mapping[str, Any],
    *,
    installed: tuple[str, str] | None,
    retention_s: float,
) -> SealedOutcome:
    """Store what the process has written, and seal it. Returns the outcome that stands.

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
    content = SealedOutcome(result, named).packed()
    standing = await blobs.seal(job.owner, job.job_id, content)
    if standing != content:
        for each in named:
            await stored.discard(job.owner, each.entry)
    return SealedOutcome.unpacked(standing)
