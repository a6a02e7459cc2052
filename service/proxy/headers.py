"""Which headers pass between the gateway's client and an upstream. Every other header stays behind.

No header of a client that names it, its key or its address is among them: `Authorization`, `X-Api-Key`, `Cookie`,
`User-Agent`, `X-Forwarded-For`, `X-Stainless-*`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from core.errors import InvalidInput
from service.config.upstreams import UpstreamKind

# Of a request: flags of the wire format.
TO_UPSTREAM: Mapping[UpstreamKind, frozenset[str]] = {
    "openai": frozenset({"openai-beta"}),
    "anthropic": frozenset({"anthropic-version", "anthropic-beta"}),
}
# Of an answer: what clients need to retry and to report a fault. Names of the operator's account are not passed on.
FROM_UPSTREAM = frozenset(
    {
        "content-type", "retry-after", "retry-after-ms", "x-should-retry", "x-request-id", "request-id",
        "openai-processing-ms", "openai-version",
    }
)  # fmt: skip
FROM_UPSTREAM_PREFIXES = ("x-ratelimit-", "anthropic-ratelimit-")

_DATE = r"20\d\d-?\d\d-?\d\d"
_FLAG = rf"(?:[a-z0-9]{{1,32}}-){{1,8}}{_DATE}|[a-z][a-z0-9_-]{{0,31}}=(?:v\d{{1,2}}|experimental|{_DATE})|{_DATE}"
# A name and a date, or a name and a version: nothing else of a client's text.
_FLAGS = re.compile(rf"(?:{_FLAG})(?:, ?(?:{_FLAG}))*")
_FLAGS_CHARS_MAX = 1024
_VALUE = re.compile(r"[ -~]{1,512}")


def to_upstream(headers: Mapping[str, str], kind: UpstreamKind) -> dict[str, str]:
    """The headers of a client's request that an upstream gets, names in lower case.

    Raises: InvalidInput for a value that is no list of flags.
    """
    chosen = {name.lower(): value for name, value in headers.items() if name.lower() in TO_UPSTREAM[kind]}
    for name, value in chosen.items():
        if len(value) > _FLAGS_CHARS_MAX or not _FLAGS.fullmatch(value):
            raise InvalidInput(
                "The header holds flags of the API, separated by commas: a name and a date, such as "
                "context-management-2025-06-27, or a name and a version, such as assistants=v2.",
                field=name,
            )
    return chosen


def from_upstream(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers of an upstream's answer that a client gets, names in lower case. The last of several counts."""
    chosen: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if (name in FROM_UPSTREAM or name.startswith(FROM_UPSTREAM_PREFIXES)) and _VALUE.fullmatch(value):
            chosen[name] = value
    return chosen
