"""The addresses of Redis in the settings."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit


def checked_url(value: str, setting: str) -> str:
    """The URL of a Redis. Raises ValueError for one that cannot be used, without showing any of it."""
    try:
        address = urlsplit(value)
        readable = address.port is None or address.port > 0
    except ValueError:  # the error's message would contain a part of the password
        readable = False
    if not readable:
        raise ValueError(f"{setting} cannot be read; percent-encode /, #, ?, [ and ] in the password")
    if address.scheme not in ("redis", "rediss", "unix"):
        raise ValueError(f"{setting} is redis://..., rediss://... or unix://...")
    if "@" in address.netloc and not (address.password or parse_qs(address.query).get("password")):
        raise ValueError(f"{setting} names a user and no password, or an empty one")
    return value
