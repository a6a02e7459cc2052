"""Encrypted files of a job: what was written comes back whole, and anything else is refused."""

import gc
import random
from pathlib import Path

import pytest

from core.errors import JobFilesLost
from core.files.encrypted_file import EncryptedFileWriter, decrypt, encrypt, new_key, read_encrypted

KEY = new_key()
CHUNK = 1024 * 1024  # a chunk in the file; the first one includes the head
TAG = 16
HEAD = 40
FIRST = CHUNK - HEAD - TAG  # bytes of plain text in the first chunk


def written(path: Path, data: bytes, *, key: bytes = KEY, label: str = "input") -> Path:
    writer = EncryptedFileWriter(path, key, label)
    for start in range(0, len(data), 100_000):
        writer.write(data[start : start + 100_000])
    writer.close()
    return path


def whole(path: Path, *, key: bytes = KEY, label: str = "input") -> bytes:
    return b"".join(read_encrypted(path, key, label))


@pytest.mark.parametrize("size", [0, 1, FIRST - 1, FIRST, FIRST + 1, FIRST + CHUNK - TAG, 3 * CHUNK])
def test_what_was_written_comes_back(tmp_path: Path, size: int) -> None:
    data = bytes(i * 7 % 251 for i in range(size))
    path = written(tmp_path / "f", data)
    assert whole(path) == data
    assert path.stat().st_mode & 0o777 == 0o600
    if size > 100:
        assert data[:50] not in path.read_bytes()


HARMS = [
    lambda raw: raw[:-1],
    lambda raw: raw[:CHUNK],  # exactly one chunk: a cut at a boundary
    lambda raw: raw[:HEAD],
    lambda raw: raw[: HEAD - 1],
    lambda raw: b"",
    lambda raw: raw[:CHUNK] + raw[2 * CHUNK : 3 * CHUNK] + raw[CHUNK : 2 * CHUNK] + raw[3 * CHUNK :],
    lambda raw: raw[:CHUNK] + raw[2 * CHUNK :],  # a chunk left out
    lambda raw: raw + raw[-20:],
    lambda raw: raw[:9] + bytes([raw[9] ^ 1]) + raw[10:],  # the salt
    lambda raw: raw[:1000] + bytes([raw[1000] ^ 1]) + raw[1001:],
    lambda raw: bytes([raw[0] ^ 1]) + raw[1:],  # the first bytes of the format
]


def test_any_other_file_is_refused(tmp_path: Path) -> None:
    data = random.Random(1).randbytes(3 * CHUNK + 500)
    path = written(tmp_path / "f", data)
    whole_file = path.read_bytes()
    for harm in HARMS:
        path.write_bytes(harm(whole_file))
        found: list[bytes] = []
        with pytest.raises(JobFilesLost):
            found.extend(read_encrypted(path, KEY, "input"))
        assert data.startswith(b"".join(found))


def test_a_file_of_another_job_or_name_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "f", b"text")
    for key, label in ((new_key(), "input"), (KEY, "shard-000001"), (bytes(32), "input"), (b"", "input")):
        with pytest.raises(JobFilesLost):
            whole(path, key=key, label=label)
    with pytest.raises(JobFilesLost):
        whole(tmp_path / "missing")


@pytest.mark.parametrize("abandoned", [True, False])
def test_a_file_without_its_end_is_refused(tmp_path: Path, abandoned: bool) -> None:
    writer = EncryptedFileWriter(tmp_path / "f", KEY, "input")
    writer.write(b"y" * (2 * CHUNK))
    if abandoned:
        writer.abandon()
    del writer
    gc.collect()  # of a writer that an exception has stopped
    with pytest.raises(JobFilesLost):
        whole(tmp_path / "f")


def test_two_files_of_the_same_text_differ(tmp_path: Path) -> None:
    first, second = (written(tmp_path / name, b"the same text").read_bytes() for name in "ab")
    assert first[HEAD:] != second[HEAD:]


def test_a_file_is_written_once(tmp_path: Path) -> None:
    path = written(tmp_path / "f", b"one")
    with pytest.raises(FileExistsError):
        EncryptedFileWriter(path, KEY, "input")
    assert whole(path) == b"one"


def test_encrypting_replaces_at_once(tmp_path: Path) -> None:
    path = tmp_path / "shard"
    encrypt(path, KEY, "shard", b"one")
    encrypt(path, KEY, "shard", b"two")
    assert decrypt(path, KEY, "shard") == b"two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["shard"]
