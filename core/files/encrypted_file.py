"""Encrypted files of a job: its input while it waits and its checkpoints.

Guarantee: what `read_encrypted` yields is a prefix of what one writer wrote under this key and label, and it ends
without an error only at the end that the writer marked. A file that is cut short, whose chunks were swapped, or that is
another file of this or another job raises JobFilesLost.

Format: Tink's streaming AEAD, key type AES256_GCM_HKDF_1MB. Each file has a key of its own (HKDF over the job's key, a
random salt and the label); chunks of 1 MiB are encrypted with AES-256-GCM, with the chunk's number and an end mark in
the nonce: the STREAM construction of Hoang and others (Online authenticated encryption, 2015).
"""

import io
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import tink
from tink import secret_key_access, streaming_aead

from core.errors import JobFilesLost

_STEP_BYTES = 256 * 1024


def new_key() -> bytes:
    """A fresh key for one job: a Tink keyset."""
    streaming_aead.register()
    keyset = tink.new_keyset_handle(streaming_aead.streaming_aead_key_templates.AES256_GCM_HKDF_1MB)
    return bytes(tink.proto_keyset_format.serialize(keyset, secret_key_access.TOKEN))


def _cipher(key: bytes) -> streaming_aead.StreamingAead:
    """Raises JobFilesLost for bytes that `new_key` does not make."""
    streaming_aead.register()
    try:
        return tink.proto_keyset_format.parse(key, secret_key_access.TOKEN).primitive(streaming_aead.StreamingAead)
    except tink.TinkError:
        raise JobFilesLost from None


class _Ciphertext(io.RawIOBase):
    """Holds what Tink has encrypted until the writer puts it into the file.

    Tink's stream marks the end also when it is garbage collected. If it wrote to the file, a writer that an exception
    stops would leave a file that looks complete.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waiting = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]  # Tink passes bytes
        self.waiting += data
        return len(data)


class EncryptedFileWriter:
    """Writes one file, mode 0600, holding about one chunk in memory.

    Without `close` the file has no end, and `read_encrypted` refuses it.
    """

    def __init__(self, path: Path, key: bytes, label: str) -> None:
        """Raises FileExistsError: a file is written once."""
        self._ciphertext = _Ciphertext()
        self._stream = _cipher(key).new_encrypting_stream(self._ciphertext, label.encode())
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._file = os.fdopen(fd, "wb")

    def write(self, data: bytes) -> None:
        for start in range(0, len(data), _STEP_BYTES):
            self._stream.write(data[start : start + _STEP_BYTES])
            self._save()

    def close(self) -> None:
        """Mark the end; on return the file is on the disk."""
        self._stream.close()
        self._save()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        """Leave the file without its end. Never fails, also on a full disk."""
        with suppress(OSError):  # of bytes that wait in the buffer
            self._file.close()

    def _save(self) -> None:
        self._file.write(self._ciphertext.waiting)
        self._ciphertext.waiting.clear()


def read_encrypted(path: Path, key: bytes, label: str) -> Iterator[bytes]:
    """The bytes in chunks; see the module's guarantee. Raises JobFilesLost."""
    try:
        with path.open("rb") as file, _cipher(key).new_decrypting_stream(file, label.encode()) as stream:
            while chunk := stream.read(_STEP_BYTES):
                yield chunk
    except (OSError, tink.TinkError):
        raise JobFilesLost from None


def encrypt(path: Path, key: bytes, label: str, data: bytes, *, create_only: bool = False) -> None:
    """Write a whole file at once: another process sees all of it or none. Replaces what was there.

    With `create_only`, exactly one of several writers succeeds, and the others raise FileExistsError.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        writer = EncryptedFileWriter(partial, key, label)
        writer.write(data)
        writer.close()
        if create_only:
            path.hardlink_to(partial)  # unlike a rename, this never replaces a file
        else:
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def decrypt(path: Path, key: bytes, label: str) -> bytes:
    """What `encrypt` wrote. Raises JobFilesLost."""
    return b"".join(read_encrypted(path, key, label))
