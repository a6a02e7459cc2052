"""An operator's OpenAI-compatible endpoint. Light: the front end builds it from the settings, a worker calls it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

_LOCAL_NAMES = ("localhost", "localhost.")


def is_url(infill: str) -> bool:
    """Whether the setting names an endpoint and no folder."""
    return "://" in infill


@dataclass(frozen=True)
class Endpoint:
    """`url`: where `/chat/completions` lies below, such as `https://host/v1`. The key stays out of `repr`.

    `plain_http`: text may go unencrypted to a host that is neither this machine nor a private address.
    Raises: ValueError for a URL that cannot be used so; it does not repeat the URL.
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
        _ = parts.port  # raises where it is no number
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("an infill endpoint's URL has no user, query or fragment; a key has a setting of its own")
        if parts.scheme == "http" and not self.plain_http and not _is_near(parts):
            raise ValueError("text goes over http:// to this machine or a private address alone; use https://")
        if not self.model:
            raise ValueError("an infill endpoint needs the name of a model")


def _is_near(parts: SplitResult) -> bool:
    """A name but localhost may lead anywhere tomorrow: addresses alone are known to be near."""
    host = parts.hostname or ""
    if host in _LOCAL_NAMES:
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (address.is_private or address.is_loopback) and not address.is_unspecified
