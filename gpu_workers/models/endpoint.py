"""An operator's OpenAI-compatible endpoint. The front end builds it from the settings; a worker calls it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

_LOCAL_NAMES = ("localhost", "localhost.")


def is_url(infill: str) -> bool:
    """Whether the setting is the URL of an endpoint and not a folder."""
    return "://" in infill


@dataclass(frozen=True)
class Endpoint:
    """`url`: the base of `/chat/completions`, such as `https://host/v1`. The key is not part of `repr`.

    `plain_http`: text may be sent unencrypted to a host that is neither this machine nor a private address.

    Raises: ValueError for an unusable URL. The message does not repeat the URL.
    """

    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = 10.0
    plain_http: bool = False

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise ValueError("an infill endpoint is https://HOST/PATH, or http://")
        _ = parts.port  # raises for a port that is not a number
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("an infill endpoint's URL has no user, query or fragment; a key has a setting of its own")
        if parts.scheme == "http" and not self.plain_http and not _is_near(parts):
            raise ValueError("text goes over http:// to this machine or a private address alone; use https://")
        if not self.model:
            raise ValueError("an infill endpoint needs the name of a model")


def _is_near(parts: SplitResult) -> bool:
    """Whether the host is local or private. A name other than localhost may resolve to any address, so it is not."""
    host = parts.hostname or ""
    if host in _LOCAL_NAMES:
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (address.is_private or address.is_loopback) and not address.is_unspecified
