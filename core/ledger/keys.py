"""The master key and the keys that are derived from it. None of them is ever in Redis.

One 32-byte secret; HKDF-SHA256 derives one key a purpose, so that no two purposes share a key.
"""

from __future__ import annotations

import hmac
import secrets
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.poly1305 import Poly1305

from core.errors import JobFilesLost, LedgerUnavailable
from core.files.secret_file import read_secret, write_secret

KEY_BYTES = 32
NONCE_BYTES = 12


class Purpose(StrEnum):
    """What a derived key is for."""

    API_KEY = "api-key-mac"
    FINGERPRINT = "fingerprint"
    SUBJECT = "subject"
    RESPONSE = "response-encryption"
    CHECK = "master-key-check"
    JOURNAL = "journal-seal"
    JOB = "job-keyset-wrap"
    JOB_CLAIM = "job-claim"
    REUSE_TAG = "reuse-tag"
    REUSE_RESULT = "reuse-result-encryption"


@dataclass(frozen=True)
class Claim:
    """An idempotency key and the request under it, as they reach Redis: two HMACs in hex."""

    scope: str
    fingerprint: str


class MasterKey:
    """The gateway's one secret. Its `repr` does not show it."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise ValueError(f"a master key has {KEY_BYTES} bytes")
        self._keys = {
            purpose: HKDF(
                algorithm=SHA256(), length=KEY_BYTES, salt=None, info=f"privacy-gateway/{purpose.value}".encode()
            ).derive(secret)
            for purpose in Purpose
        }
        self._cipher = AESGCM(self._keys[Purpose.RESPONSE])

    @classmethod
    def from_hex(cls, text: str) -> Self:
        """From 64 hex digits, as a setting holds it. Raises ValueError, without the text, otherwise."""
        try:
            secret = bytes.fromhex(text.strip())
        except ValueError:
            raise ValueError("a master key is 64 hex digits") from None
        return cls(secret)

    @classmethod
    def load_or_create(cls, data_dir: Path) -> Self:
        """From `data_dir/master.key` (32 bytes, mode 0600); the first use creates it, once among all processes.

        Raises ValueError when the file has another length or others may read it, OSError. `Ledger.check` refuses a key
        other than the one that the ledger was opened with: under a new key every subject would be a new one.
        """
        path = data_dir / "master.key"
        if not path.exists():
            with suppress(FileExistsError):  # another process was first: its key is the key
                write_secret(path, secrets.token_bytes(KEY_BYTES))
        return read_secret(
            path,
            cls,
            advice="restore the file from its backup; where there is no ledger yet, delete it and start again",
        )

    def derive(self, purpose: Purpose) -> bytes:
        """The 32-byte key of a purpose."""
        return self._keys[purpose]

    def mac(self, purpose: Purpose, *parts: bytes) -> str:
        """HMAC-SHA256 in hex over the parts, each with its length in front, so that no two lists collide."""
        framed = b"".join([len(part).to_bytes(8, "big") + part for part in parts])
        return hmac.digest(self._keys[purpose], framed, "sha256").hex()

    def subject_hash(self, tenant: str, subject: str) -> str:
        """The subject as it reaches Redis; the same subject under two tenants cannot be linked."""
        return self.mac(Purpose.SUBJECT, tenant.encode(), subject.encode())

    def claim(self, *, tenant: str, route: str, key: str, body: bytes) -> Claim:
        """The claim of an Idempotency-Key `key` on `route` with the exact bytes `body`."""
        where = (tenant.encode(), route.encode(), key.encode())
        return Claim(
            scope=self.mac(Purpose.FINGERPRINT, b"scope", *where),
            fingerprint=self.mac(Purpose.FINGERPRINT, b"body", *where, body),
        )

    def body_tag(self, *, tenant: str, route: str) -> Poly1305:
        """Reads a large body piece by piece: `update`, then `finalize` gives 16 bytes to use as the `body` of `claim`.

        Two bodies of up to 256 MiB have the same tag with probability 2^-79 at most (Bernstein 2005, Theorem 3.3): the
        tag is never told, it reaches Redis under the claim's HMAC alone. Several times as fast as SHA-256.
        """
        return Poly1305(bytes.fromhex(self.mac(Purpose.FINGERPRINT, b"body-tag", tenant.encode(), route.encode())))

    def job_claim(self, *, owner: str, route: str, key: str) -> str:
        """The id of the job that an Idempotency-Key `key` on `route` makes: 32 hex digits that nobody can guess."""
        return self.mac(Purpose.JOB_CLAIM, b"id", owner.encode(), route.encode(), key.encode())[:32]

    def wrap(self, job_key: bytes, *, job_id: str) -> bytes:
        """The key of a job's files as it stands beside them."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + AESGCM(self._keys[Purpose.JOB]).encrypt(nonce, job_key, job_id.encode())

    def unwrap(self, wrapped: bytes, *, job_id: str) -> bytes:
        """What `wrap` took. Raises JobFilesLost when it is not authentic under this master key."""
        try:
            cipher = AESGCM(self._keys[Purpose.JOB])
            return cipher.decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], job_id.encode())
        except (InvalidTag, ValueError):
            raise JobFilesLost from None

    def encrypt(self, plain: bytes, *, tenant: str, release_id: str) -> bytes:
        """AES-256-GCM under a random nonce, bound to the tenant and the release."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, f"{tenant}/{release_id}".encode())

    def decrypt(self, sealed: bytes, *, tenant: str, release_id: str) -> bytes:
        """The bytes that `encrypt` took. Raises LedgerUnavailable when they are not authentic."""
        nonce, body = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, body, f"{tenant}/{release_id}".encode())
        except (InvalidTag, ValueError):
            raise LedgerUnavailable("A stored response is not authentic under this master key.") from None
