"""The master key and the keys derived from it. None of them is ever stored in Redis.

The master key is one 32-byte secret. HKDF-SHA256 derives one key for each purpose, so no two purposes share a key.
"""

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

from core.errors import LedgerUnavailable, RecogniserBroken
from core.files.disk import read_secret, write_secret

KEY_BYTES = 32
NONCE_BYTES = 12


class Purpose(StrEnum):
    """The use of a derived key."""

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
    ATTEMPT_TAG = "attempt-tag"
    ATTEMPT = "attempt-encryption"
    ADMIN_LOG = "admin-log"
    AUDIT = "ledger-audit"
    RECOGNISERS = "recognisers-keyset-wrap"
    SURROGATE = "surrogate"
    RESTORE = "restore-token-encryption"
    VAULT = "vault-encryption"
    VAULT_NAME = "vault-name"
    SESSION = "session-encryption"
    SESSION_NAME = "session-name"
    SESSION_FORM = "session-form-token"
    ADDRESS = "address"
    EPOCH = "epoch"
    ALERT = "alert-encryption"
    SIGN_ON = "sign-on-request-encryption"
    FILES = "stored-files-keyset-wrap"
    JOB_OUTCOME = "job-outcome"
    ARCHIVE = "archive-encryption"
    STATEMENT = "statement"


@dataclass(frozen=True)
class Claim:
    """An idempotency key and its request in the form that Redis stores: two HMACs in hex.

    The gateway generates a key for a request without one. A `generated` key is stored only with a hold and its result.
    """

    scope: str
    fingerprint: str
    generated: bool = False


class MasterKey:
    """The gateway's root secret. Its `repr` does not contain it."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise ValueError(f"a master key has {KEY_BYTES} bytes")
        self._keys = {
            purpose: HKDF(
                algorithm=SHA256(), length=KEY_BYTES, salt=None, info=f"privacy-gateway/{purpose.value}".encode()
            ).derive(secret)
            for purpose in Purpose
        }

    @classmethod
    def from_hex(cls, text: str) -> Self:
        """Parse 64 hex digits, the format of the setting. Raises ValueError otherwise; the error omits the text."""
        try:
            secret = bytes.fromhex(text.strip())
        except ValueError:
            raise ValueError("a master key is 64 hex digits") from None
        return cls(secret)

    @classmethod
    def load_or_create(cls, data_dir: Path) -> Self:
        """Read `data_dir/master.key` (32 bytes, mode 0600). The first use creates it, once among all processes.

        Raises ValueError if the file has another length or other users can read it, and OSError. `Ledger.check` rejects
        a key other than the one that the ledger was opened with: with a new key every subject would get a new account.
        """
        path = data_dir / "master.key"
        if not path.exists():
            with suppress(FileExistsError):  # another process created it first, and that key is used
                write_secret(path, secrets.token_bytes(KEY_BYTES))
        return read_secret(
            path,
            cls,
            advice="restore the file from its backup; where there is no ledger yet, delete it and start again",
        )

    def derive(self, purpose: Purpose) -> bytes:
        """Return the 32-byte key of a purpose."""
        return self._keys[purpose]

    def mac(self, purpose: Purpose, *parts: bytes) -> str:
        """Return HMAC-SHA256 in hex over the parts. Each part is prefixed with its length, so no two lists collide."""
        framed = b"".join([len(part).to_bytes(8, "big") + part for part in parts])
        return hmac.digest(self._keys[purpose], framed, "sha256").hex()

    def subject_hash(self, tenant: str, subject: str) -> str:
        """Return the subject in the form that Redis stores. Subjects cannot be linked across tenants."""
        return self.mac(Purpose.SUBJECT, tenant.encode(), subject.encode())

    def surrogate_key(self, tenant: str) -> bytes:
        """Return the 32-byte key of a tenant's surrogates. No other tenant and no other purpose has it."""
        return bytes.fromhex(self.mac(Purpose.SURROGATE, tenant.encode()))

    def restore_key(self, tenant: str) -> bytes:
        """Return the 32-byte key of a tenant's restore tokens. No other tenant and no other purpose has it."""
        return bytes.fromhex(self.mac(Purpose.RESTORE, tenant.encode()))

    def claim(self, *, tenant: str, route: str, key: str, body: bytes, generated: bool = False) -> Claim:
        """Return the claim of an Idempotency-Key `key` on `route` with the exact bytes `body`."""
        where = (tenant.encode(), route.encode(), key.encode())
        return Claim(
            scope=self.mac(Purpose.FINGERPRINT, b"scope", *where),
            fingerprint=self.mac(Purpose.FINGERPRINT, b"body", *where, body),
            generated=generated,
        )

    def body_tag(self, *, tenant: str, route: str) -> Poly1305:
        """Return an incremental MAC for a large body: call `update`, then pass the 16 bytes of `finalize` to `claim`.

        Two bodies of up to 256 MiB have the same tag with probability at most 2^-79 (Bernstein 2005, Theorem 3.3). This
        requires that the tag stays secret: Redis receives only the claim's HMAC over it. Poly1305 is several times as
        fast as SHA-256.
        """
        return Poly1305(bytes.fromhex(self.mac(Purpose.FINGERPRINT, b"body-tag", tenant.encode(), route.encode())))

    def job_claim(self, *, owner: str, route: str, key: str) -> str:
        """Return the job id for an Idempotency-Key `key` on `route`: 32 hex digits that nobody can guess."""
        return self.mac(Purpose.JOB_CLAIM, b"id", owner.encode(), route.encode(), key.encode())[:32]

    def wrap(self, purpose: Purpose, plain: bytes, *, bound_to: str) -> bytes:
        """Encrypt with AES-256-GCM under a random nonce, bound to a place or an owner."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + AESGCM(self._keys[purpose]).encrypt(nonce, plain, bound_to.encode())

    def unwrap(self, purpose: Purpose, wrapped: bytes, *, bound_to: str) -> bytes | None:
        """Decrypt what `wrap` returned. None: it is not authentic under this master key."""
        cipher = AESGCM(self._keys[purpose])
        try:
            return cipher.decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], bound_to.encode())
        except (InvalidTag, ValueError):
            return None

    def wrap_recognisers_key(self, key: bytes, *, tenant: str) -> bytes:
        """Encrypt the key of a tenant's recognisers, for storage next to them."""
        return self.wrap(Purpose.RECOGNISERS, key, bound_to=tenant)

    def unwrap_recognisers_key(self, wrapped: bytes, *, tenant: str) -> bytes:
        """Decrypt what `wrap_recognisers_key` returned. Raises RecogniserBroken."""
        key = self.unwrap(Purpose.RECOGNISERS, wrapped, bound_to=tenant)
        if key is None:
            raise RecogniserBroken
        return key

    def encrypt(self, plain: bytes, *, tenant: str, release_id: str) -> bytes:
        """Encrypt the answer of a release."""
        return self.wrap(Purpose.RESPONSE, plain, bound_to=f"{tenant}/{release_id}")

    def decrypt(self, ciphertext: bytes, *, tenant: str, release_id: str) -> bytes:
        """Return the bytes that `encrypt` received. Raises LedgerUnavailable if they are not authentic."""
        plain = self.unwrap(Purpose.RESPONSE, ciphertext, bound_to=f"{tenant}/{release_id}")
        if plain is None:
            raise LedgerUnavailable("A stored response is not authentic under this master key.")
        return plain
