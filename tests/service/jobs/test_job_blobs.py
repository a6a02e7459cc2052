"""The files of a job in the store: whole moments, one outcome, and jobs of the last release."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.blob_errors import BlobMissing
from core.blobs.local import LocalBlobs
from core.job_errors import JobFilesLost
from core.ledger.job_records import JobRecord, JobStatus
from core.ledger.jobs import JobStore
from core.ledger.stored_files import ARTIFACTS, StoredFileIndex
from service.config.settings import Settings
from service.files.stored import StoredFiles
from service.jobs.blobs import JobBlobs
from service.jobs.files import JobFiles
from service.jobs.kind import Outputs
from service.jobs.outcome import SealedOutcome, seal_outcome, sealed_outcome
from service.jobs.storage import Storage
from service.jobs.takeover import take_over_jobs
from service.ledger import LedgerParts, ledger_access

JOB = "a" * 32


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


def created(go: Go, store: JobStore) -> JobRecord:
    terms = {"kind": "finetune", "label": "x", "claim": "c", "open_max": 99, "state": "", "size": 0}
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


def test_whoever_seals_first_decides_the_outcome_of_all_attempts(
    go: Go, parts: LedgerParts, blobs: JobBlobs, tmp_path: Path
) -> None:
    """An attempt that lost its job makes a second artifact, and publishes the first one."""
    job = created(go, JobStore(parts.client, gateway="other"))
    files = StoredFiles(
        tmp_path / "data",
        blobs.store,
        StoredFileIndex(parts.client, bytes_max=10**9),
        parts.master_key,
        cache_bytes_max=10**9,
    )
    assert go(sealed_outcome(blobs, job)) is None

    def sealed(attempt: str) -> SealedOutcome:
        outputs, terms = made_by(attempt, tmp_path), {"installed": None, "retention_s": 3600}
        return go(seal_outcome(blobs, files, job, outputs, {"made": attempt}, **terms))

    first, second = sealed("first"), sealed("second")
    assert first.result == {"made": "first"}
    assert second == first == go(sealed_outcome(blobs, job))
    assert len(list((tmp_path / "store/files").rglob("*-*"))) == 2, "what the second attempt has stored is deleted"
    (named,) = first.files
    go(files.index.put("acme", named))
    found = go(files.find("acme", ARTIFACTS, job.job_id))
    assert Path(found.path).read_text() == "the noise of first"

    outcome = next((tmp_path / "store").rglob("outcome"))
    outcome.write_bytes(outcome.read_bytes().replace(b'"first"', b'"forge"'))
    with pytest.raises(JobFilesLost):
        go(sealed_outcome(blobs, job))


async def no_bytes(_: str) -> int:
    return 0


def test_jobs_of_the_last_release_are_taken_over_from_their_data_directory_alone(
    go: Go, parts: LedgerParts, blobs: JobBlobs, tmp_path: Path
) -> None:
    store = JobStore(parts.client, gateway="former")
    ids = [created(go, store).job_id for _ in range(2)]
    for job_id in ids:
        go(parts.client.call("HDEL", f"{{acme}}:job:{job_id}", "state", "bytes"))
        for data_dir in ("old", "copy"):
            folder = tmp_path / data_dir / "jobs" / job_id
            folder.mkdir(parents=True)
            for name in ("key", "spec", "input"):
                (folder / name).write_text(name)
            (folder / "owner").write_text("acme")
            (folder.parent / "gateway.id").write_text("former")
    go(store.cancel("acme", ids[1]))

    for data_dir in ("old", "copy"):
        storage = Storage(tmp_path / data_dir, tenant_bytes_max=10**9, free_bytes_min=0, stored=no_bytes)
        files = JobFiles(tmp_path / data_dir, parts.master_key, storage)
        go(take_over_jobs(store, files, blobs))
        assert files.ids() == set()
        assert files.former_id() is None
        go(take_over_jobs(store, files, blobs))
    job = go(store.get("acme", ids[0]))
    assert (job.status, job.attempts) == (JobStatus.QUEUED, 0)
    go(blobs.load("acme", ids[0], job.state, tmp_path / "fetched"))
    assert sorted(path.name for path in (tmp_path / "fetched").iterdir()) == ["input", "key", "spec"]
    go(store.cancel("acme", ids[0]))
