"""The files of a job in the store: whole moments, one sealed outcome."""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.blobs.local import LocalBlobs
from core.errors import BlobMissing, JobFailed, JobFilesLost, LedgerUnavailable
from core.ledger.transitions import Ledger
from core.state.jobs import JobRecord, JobStatus, JobStore
from core.state.stored_files import ARTIFACTS, StoredFileIndex
from service.config.settings import Settings
from service.files.copies import LocalCopies
from service.files.orphans import Orphans
from service.files.stored import StoredFiles
from service.jobs.attempt import AttemptLimits, RunnerLimits, seal_outcome, store_outcome
from service.jobs.blobs import JobBlobs
from service.jobs.files import JobFiles
from service.jobs.kind import JobKinds, Made, Outputs
from service.jobs.runner import JobRunner
from service.jobs.storage import Storage
from service.ledger_connection import LedgerParts, ledger_access

JOB = "a" * 32
LIMITS = AttemptLimits(seconds_max=60, turn_s=60, memory_bytes_max=10**9, priority="normal")


Go = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(scope="module")
def go() -> Iterator[Go]:
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(scope="module")
def parts(go: Go, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerParts]:
    """A ledger that no gateway uses, so that nobody else takes its jobs."""
    access = ledger_access(Settings(data_dir=tmp_path_factory.mktemp("ledger")))
    yield go(access.__aenter__())
    go(access.__aexit__(None, None, None))


@pytest.fixture
def blobs(parts: LedgerParts, tmp_path: Path) -> JobBlobs:
    return JobBlobs(LocalBlobs(tmp_path / "store"), parts.master_key)


async def no_bytes(_: str) -> int:
    return 0


def created(go: Go, store: JobStore) -> JobRecord:
    terms = {"kind": "finetune", "label": "x", "claim": "c", "open_max": 99, "state": f"{1:010d}-{JOB}{JOB}", "size": 0}
    return go(store.create("acme", secrets.token_hex(16), **terms))[0]


def stored(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "store/jobs").rglob("*") if path.is_file()}


def test_what_has_changed_is_stored_and_what_is_gone_is_dropped(go: Go, blobs: JobBlobs, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    (folder / "out").mkdir(parents=True)
    for name in ("key", "input", ".draft", "run.lock", "owner", "out/made"):
        (folder / name).write_text(name)
    first = go(blobs.save("acme", JOB, folder, None))
    assert set(first.blobs) == {"key", "input"}
    assert go(blobs.save("acme", JOB, folder, first)) is first

    (folder / "input").unlink()
    (folder / "release").write_text("noise")
    second = go(blobs.save("acme", JOB, folder, first))
    assert set(second.blobs) == {"key", "release"}
    assert second.blobs["key"] == first.blobs["key"]
    assert second.size == len("key") + len("noise")
    go(blobs.drop("acme", JOB, first, second))
    assert stored(tmp_path) == {second.state, *second.blobs.values()}

    fetched = go(blobs.load("acme", JOB, second.state, tmp_path / "elsewhere"))
    assert fetched == second
    assert {path.name: path.read_text() for path in (tmp_path / "elsewhere").iterdir()} == {
        "key": "key",
        "release": "noise",
    }
    assert go(blobs.save("acme", JOB, tmp_path / "elsewhere", fetched)) is fetched
    go(blobs.remove("acme", JOB))
    assert stored(tmp_path) == set()


@pytest.mark.parametrize("which", ["manifest", "file"])
def test_a_changed_file_is_refused_and_a_missing_one_is_another_error(
    go: Go, blobs: JobBlobs, tmp_path: Path, which: str
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "input").write_text("text")
    manifest = go(blobs.save("acme", JOB, folder, None))
    name = manifest.state if which == "manifest" else manifest.blobs["input"]
    blob = next((tmp_path / "store").rglob(name))
    blob.write_bytes(blob.read_bytes()[:-1])
    with pytest.raises(JobFilesLost):
        go(blobs.load("acme", JOB, manifest.state, tmp_path / "one"))
    blob.unlink()
    with pytest.raises(BlobMissing):
        go(blobs.load("acme", JOB, manifest.state, tmp_path / "two"))


def made_by(attempt: str, tmp_path: Path) -> Outputs:
    outputs = Outputs("acme", tmp_path / attempt / f"{JOB}.safetensors")
    outputs.artifact.parent.mkdir()
    outputs.artifact.write_text(f"the noise of {attempt}")
    outputs.card.write_text("a card")
    return outputs


def stored_files(parts: LedgerParts, blobs: JobBlobs, tmp_path: Path) -> StoredFiles:
    index = StoredFileIndex(parts.client, bytes_max=10**9)
    copies = LocalCopies(tmp_path / "data", bytes_max=10**9, free_bytes_min=0)
    return StoredFiles(copies, blobs.store, index, parts.master_key)


class LosesAReply(JobStore):
    """Redis carries out the first `take`, and does not answer."""

    lost: JobRecord | None = None

    async def take(self, owner: str, job_id: str, **terms: Any) -> JobRecord | None:
        found = await super().take(owner, job_id, **terms)
        if self.lost is None:
            self.lost = found
            raise LedgerUnavailable
        return found


def test_a_sealed_outcome_is_published_without_its_process_and_a_lost_reply_is_no_attempt(
    go: Go, parts: LedgerParts, blobs: JobBlobs, tmp_path: Path
) -> None:
    """The job has had its last attempt, and the files that its process would need are gone."""
    store = LosesAReply(parts.client, gateway="this")
    files = stored_files(parts, blobs, tmp_path)
    job = created(go, store)
    with pytest.raises(LedgerUnavailable):
        go(
            store.take(
                "acme", job.job_id, run="first", attempts_max=1, exhausted=JobFailed(code="job-attempts-exhausted")
            )
        )
    outputs = [Made(ARTIFACTS, job.job_id, {".safetensors": made_by("first", tmp_path).artifact})]
    made = go(store_outcome(blobs, files, job, outputs, {"made": "first"}, retention_s=3600))
    assert go(seal_outcome(store, blobs, job, "first", made)) == made.outcome
    assert go(Orphans(files, store).collect(age_s=-60)) == 0, "the sealed files have no entry yet, whatever their age"
    store.lost = None

    limits = RunnerLimits(1, 9, 1.0, retention_s=60, alone=True, attempt=replace(LIMITS, attempts_max=1))
    storage = Storage(tmp_path / "data", tenant_bytes_max=10**9, free_bytes_min=0, stored=no_bytes)
    job_files, ledger = JobFiles(tmp_path / "data", parts.master_key, storage), Ledger(parts.client, parts.master_key)
    runner = JobRunner(store, job_files, blobs, files, JobKinds([]), ledger=ledger, limits=limits)

    async def until_ended() -> JobRecord:
        await runner.open()
        try:
            async with asyncio.timeout(60):
                while not (found := await store.get("acme", job.job_id)).status.ended:
                    await runner.changed()
        finally:
            await runner.close()
        return found

    done = go(until_ended())
    assert (done.status, done.result, done.attempts) == (JobStatus.SUCCEEDED, {"made": "first"}, 2)
    assert store.lost is not None
    assert store.lost.run == done.run
    assert Path(go(files.find("acme", ARTIFACTS, job.job_id)).path).read_text() == "the noise of first"
