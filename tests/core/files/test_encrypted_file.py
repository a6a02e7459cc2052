"""Encrypted files of a job: what was written comes back whole, and anything else is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import JobFilesLost
from core.files.encrypted_file import (
    CHUNK_BYTES,
    EncryptedFileWriter,
    LineTooLong,
    decrypt,
    encrypt,
    lines,
    new_key,
    read_encrypted,
)

KEY = new_key()
SEALED = CHUNK_BYTES + 16
HEAD = 24


def written(path: Path, data: bytes, *, key: bytes = KEY, label: str = "input") -> Path:
    writer = EncryptedFileWriter(path, key, label)
    for start in range(0, len(data), 100_000):
        writer.write(data[start : start + 100_000])
    writer.close()
    return path


def whole(path: Path, *, key: bytes = KEY, label: str = "input") -> bytes:
    return b"".join(read_encrypted(path, key, label))


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
def test_what_was_written_comes_back(tmp_path: Path, size: int) -> None:
    data = bytes(i * 7 % 251 for i in range(size))
    path = written(tmp_path / "f", data)
    assert whole(path) == data
    assert path.stat().st_mode & 0o777 == 0o600
    if size > 100:
        assert data[:50] not in path.read_bytes()


@pytest.mark.parametrize(
    "harm",
    [
        lambda raw: raw[:-1],
        lambda raw: raw[: HEAD + SEALED],  # exactly one chunk: a cut at a boundary
        lambda raw: raw[:HEAD],
        lambda raw: raw[: HEAD - 1],
        lambda raw: b"",
        lambda raw: (
            raw[:HEAD] + raw[HEAD + SEALED : HEAD + 2 * SEALED] + raw[HEAD : HEAD + SEALED] + raw[HEAD + 2 * SEALED :]
        ),
        lambda raw: raw[: HEAD + SEALED] + raw[HEAD + 2 * SEALED :],  # a chunk left out
        lambda raw: raw + raw[-20:],
        lambda raw: raw[:9] + bytes([raw[9] ^ 1]) + raw[10:],
        lambda raw: raw[:1000] + bytes([raw[1000] ^ 1]) + raw[1001:],
        lambda raw: b"PGSCRAT2" + raw[8:],
    ],
    ids=["cut", "cut-at-chunk", "head", "half-head", "empty", "swapped", "dropped", "longer", "salt", "bit", "magic"],
)
def test_any_other_file_is_refused(tmp_path: Path, harm) -> None:
    path = written(tmp_path / "f", b"x" * (2 * CHUNK_BYTES + 500))
    path.write_bytes(harm(path.read_bytes()))
    with pytest.raises(JobFilesLost):
        whole(path)


def test_a_file_of_another_job_or_name_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "f", b"text")
    for key, label in ((new_key(), "input"), (KEY, "shard-000001")):
        with pytest.raises(JobFilesLost):
            whole(path, key=key, label=label)
    with pytest.raises(JobFilesLost):
        whole(tmp_path / "missing")


def test_a_file_without_its_end_is_refused(tmp_path: Path) -> None:
    writer = EncryptedFileWriter(tmp_path / "f", KEY, "input")
    writer.write(b"y" * (2 * CHUNK_BYTES))
    writer.abandon()
    with pytest.raises(JobFilesLost):
        whole(tmp_path / "f")


def test_sealing_replaces_at_once(tmp_path: Path) -> None:
    path = tmp_path / "shard"
    encrypt(path, KEY, "shard", b"one")
    encrypt(path, KEY, "shard", b"two")
    assert decrypt(path, KEY, "shard") == b"two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["shard"]


def test_lines_across_chunks_and_their_limit() -> None:
    chunks = [b"ab", b"c\n\n  \nde", b"f\r\n", b"g"]
    assert list(lines(chunks, bytes_max=10)) == [(1, b"abc"), (4, b"def"), (5, b"g")]
    assert list(lines([], bytes_max=10)) == []
    with pytest.raises(LineTooLong) as found:
        list(lines([b"a\n", b"12345", b"678901", b"2"], bytes_max=10))
    assert found.value.number == 2
