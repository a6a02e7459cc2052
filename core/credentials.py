"""Validation and comparison of credentials.

Guarantee: an empty credential matches nothing, and an empty or too short one never reaches a comparison. No message
contains a credential.
"""

import hmac
import re
import secrets

ADMIN_KEY_CHARS_MIN = 32
API_KEY = re.compile(r"pgw_([0-9a-f]{16})_([0-9a-f]{32})")  # key id and secret

_VISIBLE = re.compile(r"[!-~]+")
_MADE_PREFIX, _MADE_HEX = "pga_", 32  # of an admin key that the gateway generated


def same_credential(presented: str, expected: str) -> bool:
    """Whether the two are equal, in constant time. An empty credential equals nothing."""
    if not presented or not expected:
        return False
    return hmac.compare_digest(presented.encode(), expected.encode())


def token(text: str) -> str:
    """Return `text` without surrounding blanks. Raises ValueError if it is empty or not valid in an HTTP header."""
    stripped = text.strip()
    if not stripped:
        raise ValueError("a secret that is set must not be empty")
    if not _VISIBLE.fullmatch(stripped):
        raise ValueError("a secret has no blanks inside and only visible ASCII characters")
    return stripped


def admin_key(text: str) -> str:
    """Return a valid admin key. Raises ValueError for fewer than `ADMIN_KEY_CHARS_MIN` characters, for an incomplete
    key that the gateway generated, and as `token`."""
    key = token(text)
    if len(key) < ADMIN_KEY_CHARS_MIN:
        raise ValueError(f"an admin key has at least {ADMIN_KEY_CHARS_MIN} characters")
    if key.startswith(_MADE_PREFIX) and len(key) < len(_MADE_PREFIX) + _MADE_HEX:
        raise ValueError("this admin key is cut short")
    return key


def new_admin_key() -> str:
    """Return a new admin key of 128 random bits."""
    return _MADE_PREFIX + secrets.token_hex(_MADE_HEX // 2)
