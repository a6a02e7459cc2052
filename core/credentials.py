"""What a credential must look like before anything is compared with it, and how two are compared.

Guarantee: an empty credential matches nothing, and none that is empty or too short gets as far as a comparison. No
message shows a credential.
"""

from __future__ import annotations

import hmac
import re
import secrets

ADMIN_KEY_CHARS_MIN = 32
API_KEY = re.compile(r"pgw_([0-9a-f]{16})_([0-9a-f]{32})")  # key id and secret

_VISIBLE = re.compile(r"[!-~]+")
_MADE_PREFIX, _MADE_HEX = "pga_", 32  # of an admin key of the gateway's own making


def same_credential(presented: str, expected: str) -> bool:
    """Whether the two are equal, in constant time. An empty one is equal to nothing."""
    if not presented or not expected:
        return False
    return hmac.compare_digest(presented.encode(), expected.encode())


def token(text: str) -> str:
    """`text` without the blanks around it. Raises ValueError for an empty one, or one that fits no HTTP header."""
    stripped = text.strip()
    if not stripped:
        raise ValueError("a secret that is set must not be empty")
    if not _VISIBLE.fullmatch(stripped):
        raise ValueError("a secret has no blanks inside and only visible ASCII characters")
    return stripped


def admin_key(text: str) -> str:
    """A usable admin key. Raises ValueError for less than `ADMIN_KEY_CHARS_MIN` characters, for a key of the gateway's
    own making that is not whole, and as `token`."""
    key = token(text)
    if len(key) < ADMIN_KEY_CHARS_MIN:
        raise ValueError(f"an admin key has at least {ADMIN_KEY_CHARS_MIN} characters")
    if key.startswith(_MADE_PREFIX) and len(key) < len(_MADE_PREFIX) + _MADE_HEX:
        raise ValueError("this admin key is cut short")
    return key


def new_admin_key() -> str:
    """A fresh one, of 128 random bits."""
    return _MADE_PREFIX + secrets.token_hex(_MADE_HEX // 2)


def api_key(text: str) -> str:
    """A tenant's API key. Raises ValueError for anything else."""
    key = token(text)
    if not API_KEY.fullmatch(key):
        raise ValueError("this is no whole API key of a tenant (pgw_..., 53 characters)")
    return key
