"""Encrypted files of a job: its input while it waits and its checkpoints.

Guarantee: what `read_encrypted` yields is a prefix of what one writer wrote under this key and label, and it ends
without an error only at the end that the writer marked. A file that is cut short, whose chunks were swapped, or that is
another file of this or another job raises JobFilesLost.

Format: magic, a random salt, then chunks. AES-256-GCM with a key for each file (HKDF over the job's key, the salt
and the label), the chunk's number and an end mark in the nonce: the STREAM construction of Rogaway and others
(Online authenticated encryption, 2015).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from core.errors import JobFilesLost

_MAGIC = b"PGSCRAT1"
_SALT_BYTES = 16
_KEY_BYTES = 32
_TAG_BYTES = 16
CHUNK_BYTES = 256 * 1024


def new_key() -> bytes:
    """A fresh key for one job."""
    return secrets.token_bytes(_KEY_BYTES)


def _cipher(key: bytes, salt: bytes, label: str) -> AESGCM:
    info = f"privacy-gateway/scratch/{label}".encode()
    return AESGCM(HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=salt, info=info).derive(key))


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11, "big") + (b"\1" if last else b"\0")


class EncryptedFileWriter:
    """Writes one file, mode 0600, holding one chunk in memory. Without `close` the file has no end and is refused."""

    def __init__(self, path: Path, key: bytes, label: str) -> None:
        """Raises FileExistsError: a file is written once."""
        salt = secrets.token_bytes(_SALT_BYTES)
        self._cipher = _cipher(key, salt, label)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._file: BinaryIO = os.fdopen(fd, "wb")
        self._file.write(_MAGIC + salt)
        self._waiting = bytearray()
        self._number = 0

    def write(self, data: bytes) -> None:
        self._waiting += data
        start = 0
        while len(self._waiting) - start > CHUNK_BYTES:  # the last chunk is never empty, save in an empty file
            self._chunk(bytes(self._waiting[start : start + CHUNK_BYTES]), last=False)
            start += CHUNK_BYTES
        del self._waiting[:start]

    def close(self) -> None:
        """Mark the end; on return the file is on the disk."""
        self._chunk(bytes(self._waiting), last=True)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        """Leave the file without its end."""
        self._file.close()

    def _chunk(self, plain: bytes, *, last: bool) -> None:
        self._file.write(self._cipher.encrypt(_nonce(self._number, last=last), plain, None))
        self._number += 1


def read_encrypted(path: Path, key: bytes, label: str) -> Iterator[bytes]:
    """The bytes in chunks; see the module's guarantee. Raises JobFilesLost."""
    try:
        with path.open("rb") as file:
            head = file.read(len(_MAGIC) + _SALT_BYTES)
            if not head.startswith(_MAGIC) or len(head) < len(_MAGIC) + _SALT_BYTES:
                raise JobFilesLost
            cipher = _cipher(key, head[len(_MAGIC) :], label)
            number = 0
            sealed = file.read(CHUNK_BYTES + _TAG_BYTES)
            while True:
                following = file.read(CHUNK_BYTES + _TAG_BYTES)
                yield cipher.decrypt(_nonce(number, last=not following), sealed, None)
                if not following:
                    return
                sealed, number = following, number + 1
    except (OSError, InvalidTag, ValueError):
        raise JobFilesLost from None


def encrypt(path: Path, key: bytes, label: str, data: bytes) -> None:
    """Write a whole file at once: another process sees all of it or none. Replaces what was there."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        writer = EncryptedFileWriter(partial, key, label)
        writer.write(data)
        writer.close()
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def decrypt(path: Path, key: bytes, label: str) -> bytes:
    """What `encrypt` wrote. Raises JobFilesLost."""
    return b"".join(read_encrypted(path, key, label))


class LineTooLong(ValueError):
    """A line above the limit; `number` counts from 1."""

    def __init__(self, number: int) -> None:
        super().__init__("a line is too long")
        self.number = number


def lines(chunks: Iterable[bytes], *, bytes_max: int) -> Iterator[tuple[int, bytes]]:
    """Number (from 1) and bytes of each line that is not blank. Raises LineTooLong."""
    rest = b""
    number = 0
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n") if b"\n" in chunk else (rest + chunk,)
        for line in whole:
            number += 1
            if len(line) > bytes_max:
                raise LineTooLong(number)
            if stripped := line.strip(b" \t\r"):
                yield number, stripped
        if len(rest) > bytes_max:
            raise LineTooLong(number + 1)
    if stripped := rest.strip(b" \t\r"):
        yield number + 1, stripped
