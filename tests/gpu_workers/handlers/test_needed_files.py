"""Which files a task needs."""

from pathlib import Path

import pytest
from recogniser_kit import stored

from core.files.disk import FileVersion
from core.text.own_recognisers.definition import Definition
from core.text.policy import MaskPolicy, SanitizeTask
from gpu_workers.handlers.options import absent
from gpu_workers.handlers.sanitize_tasks import WindowTask
from gpu_workers.handlers.tasks import EmbedTask


@pytest.fixture
def file(tmp_path: Path) -> FileVersion:
    """A file that does not exist yet."""
    return FileVersion(str(tmp_path / "own.safetensors"), "0" * 64)


def embed(pack: FileVersion | None) -> EmbedTask:
    text = tuple(f"Sentence number {number} of a long document." for number in range(500))
    return EmbedTask(text, None, "sentence_codes", "own", 1, pack=pack)


def test_a_task_lacks_its_file_until_it_exists(file: FileVersion) -> None:
    payloads = [
        embed(None),
        embed(file),
        WindowTask("text", MaskPolicy(), file),
        SanitizeTask("text", MaskPolicy(), fill="top1", model=file),
    ]
    assert absent(payloads) == [1, 2, 3]
    Path(file.path).touch()
    assert absent(payloads) == []


def test_a_piece_of_a_document_needs_the_file_of_the_whole(file: FileVersion) -> None:
    pieces = embed(file).pieces(512)
    assert len(pieces.tasks) > 1
    assert absent([task.payload for task in pieces.tasks]) == list(range(len(pieces.tasks)))


def test_a_task_needs_each_recogniser_of_its_policy(tmp_path: Path) -> None:
    own = stored(tmp_path, Definition(entity="CODE", deny=("alpha",)))
    task = SanitizeTask("text", MaskPolicy(own=(own,)))
    assert absent([task]) == []
    Path(own.file.path).unlink()
    assert absent([task]) == [0]
