"""What passes between a process on a cluster and the gateway that holds its job.

The order goes to the process as a pickle, which trusts its gateway. Everything that the process sends is JSON, in the
forms of this module, and bounded; the gateway unpickles nothing.
"""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, TypeAdapter

from gpu_workers.jobs.manifests import Listed
from gpu_workers.jobs.protocol import (
    Charged,
    ChargeRequested,
    Count,
    Failed,
    Held,
    HoldRequested,
    JobOrder,
    JobProgress,
    Succeeded,
    Wire,
)

PREFIX = "/internal/jobs"
BODY_BYTES_MAX = 4 * 1024 * 1024  # the list of 20,000 files
MESSAGES_MAX = 1000  # of one request
BEAT_S = 1.0  # between two requests of a process that has nothing to say
MADE = "made-"  # the name of an encrypted file of what the job has made begins with it

# What a process sends, and the answers. A message is an object of its fields: no two of one direction have the same.
Outcome = Succeeded | Failed
Sent = JobProgress | HoldRequested | ChargeRequested | Outcome
SENT: TypeAdapter[Sent] = TypeAdapter(Sent, config=Wire.model_config)
OUTCOME: TypeAdapter[Outcome] = TypeAdapter(Outcome, config=Wire.model_config)
ANSWERS: TypeAdapter[list[Any]] = TypeAdapter(list[Charged | Held], config=Wire.model_config)


class Exchanged(Wire):
    """Messages from number `first` on. A repeated request changes nothing: `seen` counts the answers that arrived.
    `waits`: answer once there is a further one, or after BEAT_S."""

    first: Count
    messages: list[Sent] = Field(max_length=MESSAGES_MAX)
    seen: Count
    waits: bool


class CheckpointReport(Wire):
    files: dict[str, tuple[str, Count]] = Field(max_length=20_000)


@dataclass(frozen=True)
class RemoteOrder:
    """What the token is exchanged for, as a pickle. `secret`: of the session. `files`: those of the job, below `prefix`
    in the blob store. `patience_s`: without an answer of the gateway for so long, the process ends."""

    order: JobOrder
    secret: str = field(repr=False)
    prefix: str
    files: Listed
    patience_s: float


def checked_address(address: str, name: str, *, plain_http: bool) -> str:
    """Raises ValueError unless this is https://HOST..., or http:// where it is permitted or stays on this machine."""
    try:
        found = urlsplit(address)
        usable = found.scheme in ("http", "https") and bool(found.hostname) and "@" not in found.netloc
        usable = usable and not (found.query or found.fragment) and (found.port is None or found.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"{name} is https://HOST:PORT or http://HOST:PORT, without credentials")
    if found.scheme == "http" and not plain_http and found.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise ValueError(f"{name} is without TLS: use https://, or set RAY_PLAIN_HTTP in a network of your own")
    return address.rstrip("/")
