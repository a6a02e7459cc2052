"""How an object store is reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class StoreOptions:
    """Of an object store; a local folder needs none.

    config: options of `obstore` for this kind of store, such as `endpoint`, `region` and credentials. Those that are
    missing come from the environment of the cloud, such as AWS_ACCESS_KEY_ID or the role of the machine.
    timeout_s: of one request, and of all retries of one. plain_http: whether HTTP without TLS is allowed.
    """

    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 60.0
    connect_timeout_s: float = 5.0
    retries_max: int = 3
    plain_http: bool = False
    ca_file: Path | None = None
