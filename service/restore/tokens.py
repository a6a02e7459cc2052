"""Restore tokens: the surrogates of a call and their originals, which the caller keeps and the gateway does not.

Guarantee: AES-256-GCM under a key of the tenant alone. Nobody without the master key can read a token or make one that
the gateway accepts; a token of another tenant, and one whose time is over, is refused. The size of a token tells about
how much was masked.
"""

import base64
import binascii
import secrets
import time
from collections.abc import Callable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from core.errors import InvalidInput
from core.master_key import NONCE_BYTES
from core.text.reversible.mapping import Content

FIELD = "restore_token"
_VERSION = b"\x01"
_TIME_BYTES = 8
_HEAD_BYTES = len(_VERSION) + _TIME_BYTES
_CONTENT_FACTOR = 64  # the most that a token's content may expand
_CHARS_MAX = 1 << 20  # of a token, which its caller sends back in a body


class RestoreTokens:
    """Seals and opens the tokens of all tenants."""

    def __init__(self, key: Callable[[str], bytes], *, lifetime_s: int, clock: Callable[[], float] = time.time) -> None:
        """`key`: tenant -> the key of its tokens. `clock`: seconds since 1970."""
        self._key = key
        self._lifetime_s = lifetime_s
        self._clock = clock

    def seal(self, tenant: str, content: Content) -> tuple[str, int]:
        """A token, and the time at which it ends, in seconds since 1970. Raises InvalidInput for too much to seal."""
        ends_at = int(self._clock()) + self._lifetime_s
        head = _VERSION + ends_at.to_bytes(_TIME_BYTES, "big")
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = head + nonce + AESGCM(self._key(tenant)).encrypt(nonce, content.packed(), head)
        token = base64.urlsafe_b64encode(sealed).decode()
        if len(token) > _CHARS_MAX:
            raise InvalidInput("So much is masked that its restore token would be too large.", field="documents")
        return token, ends_at

    def open(self, tenant: str, token: str) -> Content:
        """The surrogates of a token. Raises InvalidInput for one that is not valid for this tenant now."""
        refused = InvalidInput("The token is not one of this tenant's, or its time is over.", field=FIELD)
        if len(token) > _CHARS_MAX:
            raise refused
        try:
            sealed = base64.b64decode(token.encode("ascii"), altchars=b"-_", validate=True)
            head, nonce = sealed[:_HEAD_BYTES], sealed[_HEAD_BYTES : _HEAD_BYTES + NONCE_BYTES]
            packed = AESGCM(self._key(tenant)).decrypt(nonce, sealed[_HEAD_BYTES + NONCE_BYTES :], head)
        except (UnicodeEncodeError, binascii.Error, ValueError, InvalidTag):
            raise refused from None
        if head[:1] != _VERSION or int.from_bytes(head[1:], "big") <= self._clock():
            raise refused
        return Content.unpacked(packed, bytes_max=_CONTENT_FACTOR * _CHARS_MAX)
