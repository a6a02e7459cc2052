"""Which files a task needs, and the places that it gets for them on another machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from recogniser_kit import stored

from core.files.file_version import FileVersion, file_version
from core.text.own_recognisers.definition import Definition
from core.text.policy import MaskPolicy, SanitizeTask
from gpu_workers.engine.constants import group_of_file
from gpu_workers.engine.remote.object_cache import ObjectCache
from gpu_workers.engine.remote.object_sender import Needs
from gpu_workers.engine.remote.object_server import WorkerFiles
from gpu_workers.handlers.needed_files import NeededFiles, absent, files_of
from gpu_workers.handlers.sanitize_tasks import WindowTask
from gpu_workers.handlers.tasks import EmbedTask


def embed(pack: FileVersion | None) -> EmbedTask:
    return EmbedTask(("text",), None, "clipped_cosine", "own", 10**9, pack=pack)


def worker_files(folder: Path) -> WorkerFiles:
    return WorkerFiles(ObjectCache(folder, bytes_max=1 << 20), NeededFiles())


def kept(folder: Path, file: FileVersion) -> Path:
    """Where a worker keeps a file."""
    return folder / group_of_file(file.path) / file.stamp


def test_a_version_without_a_digest_means_nothing_on_another_machine(tmp_path: Path) -> None:
    path = tmp_path / "pack.safetensors"
    path.write_bytes(b"pack")
    task = embed(file_version(path))
    assert absent([task]) == []
    assert worker_files(tmp_path / "worker").claim([embed(None), task]).lacking == [1]
    assert Needs(files_of).of(task) == ()


def test_a_piece_of_a_document_needs_the_file_of_the_whole(tmp_path: Path) -> None:
    pack = FileVersion(str(tmp_path / "pack.safetensors"), "0" * 64)
    text = tuple(f"Sentence number {number} of a long document." for number in range(500))
    whole = EmbedTask(text, None, "sentence_codes", "own", 1, pack=pack)
    pieces = whole.pieces(512)
    assert pieces is not None
    payloads = [task.payload for task in pieces.tasks]
    assert len(payloads) > 1
    assert absent(payloads) == list(range(len(payloads)))
    assert {Needs(files_of).of(payload) for payload in payloads} == {Needs(files_of).of(whole)}


def test_each_recogniser_of_a_policy_must_be_the_one_that_is_named(tmp_path: Path) -> None:
    own = stored(tmp_path, Definition(entity="CODE", deny=("alpha",)))
    task = SanitizeTask("text", MaskPolicy(own=(own,)))
    files = worker_files(tmp_path / "worker")
    assert files.claim([task]).lacking == [0]
    place = kept(tmp_path / "worker", own.file)
    place.parent.mkdir()
    place.write_bytes(Path(own.file.path).read_bytes())
    claim = worker_files(tmp_path / "worker").claim([task, embed(None)])
    assert not claim.lacking
    assert claim.payloads[0].policy.own == (replace(own, file=replace(own.file, path=str(place))),)
    assert claim.payloads[0] == replace(task, policy=claim.payloads[0].policy)
    assert task.policy.own == (own,), "the task that was sent is as it was"
    place.write_bytes(b"another")
    assert worker_files(tmp_path / "worker").claim([task]).lacking == [0]


def test_the_path_that_a_gateway_names_is_never_opened(tmp_path: Path) -> None:
    path = tmp_path / "pack.safetensors"
    path.write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert worker_files(tmp_path / "worker").claim([embed(FileVersion(str(path), empty))]).lacking == [0]


def test_a_window_of_a_document_that_a_tuned_model_fills_gets_the_place_of_the_model() -> None:
    model = FileVersion("/gateway/cache/infill/tenants/acme/own.safetensors", "1" * 64)
    policy = MaskPolicy()
    for payload in (WindowTask("text", policy, model), SanitizeTask("text", policy, fill="top1", model=model)):
        assert list(files_of(payload)) == [model]
        moved = NeededFiles().moved(payload, lambda file: replace(file, path="/worker/own"))
        assert moved == replace(payload, model=FileVersion("/worker/own", "1" * 64))
        assert moved.policy is policy
