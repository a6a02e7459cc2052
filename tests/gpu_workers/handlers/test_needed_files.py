"""A worker server runs no task whose files are missing on its machine, or of another version than it names."""

from __future__ import annotations

import os
from pathlib import Path

from recogniser_kit import stored

from core.files.file_version import FileVersion, file_digest, file_version
from core.text.own_recognisers.definition import Definition
from core.text.policy import MaskPolicy, SanitizeTask
from gpu_workers.handlers.needed_files import NeededFiles, absent
from gpu_workers.handlers.tasks import EmbedTask


def embed(pack: FileVersion | None) -> EmbedTask:
    return EmbedTask(("text",), None, "clipped_cosine", "own", 10**9, pack=pack)


def replace(path: Path, content: bytes) -> FileVersion:
    draft = path.with_suffix(".partial")
    draft.write_bytes(content)
    draft.replace(path)
    return FileVersion(str(path), file_digest(path))


def test_a_file_of_another_version_is_as_good_as_none(tmp_path: Path) -> None:
    path, files = tmp_path / "pack.safetensors", NeededFiles()
    assert files.lacking([embed(None), embed(FileVersion(str(path), "0" * 64))]) == [1]
    first = replace(path, b"first")
    assert files.lacking([embed(first)]) == []
    second = replace(path, b"second")
    assert files.lacking([embed(first), embed(second), embed(None)]) == [0]
    times = path.stat()
    replace(path, b"third!")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # as a copy that keeps times
    assert files.lacking([embed(second)]) == [0]
    path.unlink()
    assert files.lacking([embed(second)]) == [0]


def test_a_version_without_a_digest_means_nothing_on_another_machine(tmp_path: Path) -> None:
    path = tmp_path / "pack.safetensors"
    path.write_bytes(b"pack")
    assert NeededFiles().lacking([embed(file_version(path))]) == [0]


def test_a_piece_of_a_document_needs_the_file_of_the_whole(tmp_path: Path) -> None:
    pack = FileVersion(str(tmp_path / "pack.safetensors"), "0" * 64)
    text = tuple(f"Sentence number {number} of a long document." for number in range(500))
    pieces = EmbedTask(text, None, "sentence_codes", "own", 1, pack=pack).pieces(512)
    assert pieces is not None
    payloads = [task.payload for task in pieces.tasks]
    assert len(payloads) > 1
    assert NeededFiles().lacking(payloads) == absent(payloads) == list(range(len(payloads)))


def test_each_recogniser_of_a_policy_must_be_the_one_that_is_named(tmp_path: Path) -> None:
    own = stored(tmp_path, Definition(entity="CODE", deny=("alpha",)))
    task, files = SanitizeTask("text", MaskPolicy(own=(own,))), NeededFiles()
    assert files.lacking([task]) == []
    stored(tmp_path, Definition(entity="CODE", deny=("beta",)))
    assert files.lacking([task]) == [0]
