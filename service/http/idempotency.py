"""The `Idempotency-Key` of a request."""

from __future__ import annotations

import re
import uuid

from fastapi import Request

from core.errors import InvalidInput

_KEY = re.compile(r"^[\x21-\x7e]{1,255}$")


def is_generated(request: Request) -> bool:
    """Whether `idempotency_key` generates the key of this request."""
    return "idempotency-key" not in request.headers


def idempotency_key(request: Request) -> str:
    """The request's key, else a fresh one. Either one is returned in a header and finds the same answer again.

    Raises:
        InvalidInput: the header is not 1 to 255 visible ASCII characters.
    """
    offered = request.headers.get("idempotency-key")
    if offered is None:
        return uuid.uuid4().hex
    if not _KEY.match(offered):
        raise InvalidInput("Idempotency-Key must be 1 to 255 visible ASCII characters")
    return offered
