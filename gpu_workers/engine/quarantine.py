"""Which tasks run apart from all others, because a worker has died with them or with their tenant's tasks.

A worker that is killed, by the system for its memory or by the pool for its time, does not say which task of its batch
was the cause. Each of them is therefore suspected, and so is its tenant:

* A document that was in the batch runs alone, whoever sends it again, until it has once completed alone.
* A tenant whose tasks were in one such batch runs alone until one of its tasks has completed alone. After a second one,
  it runs alone for `RETENTION_S`, so that a document that differs each time does not help.

Guarantee: during the retention, a document ends a batch of others once, and a tenant twice. No text is kept: a document
is known by an HMAC of its strings under a random key of this process.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

from gpu_workers.engine.pending import PendingTask

RETENTION_S = 300.0
DOCUMENTS_MAX = 4_096  # digests that are kept; a batch has some hundred documents at most
DEATHS_MAX = 2  # of batches with tasks of one tenant, until it runs alone for the whole retention


class Quarantine:
    """Used on the event loop only, without locks."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._documents: OrderedDict[bytes, float] = OrderedDict()  # digest -> when it was last in such a batch
        self._deaths: dict[str, list[float]] = {}  # when batches with a tenant's tasks have ended a worker
        self._suspected: set[str] = set()  # of these tenants, those that run alone

    def suspect(self, batch: Sequence[PendingTask]) -> None:
        """A worker has died while it ran `batch`."""
        now = time.monotonic()
        self._expire(now)
        for pending in batch:
            digest = self._digest(pending)
            self._documents[digest] = now
            self._documents.move_to_end(digest)
        while len(self._documents) > DOCUMENTS_MAX:
            self._documents.popitem(last=False)
        for tenant in {pending.group.tenant for pending in batch}:
            self._deaths[tenant] = [*self._deaths.get(tenant, ()), now][-DEATHS_MAX:]
            self._suspected.add(tenant)

    def holds(self, pending: PendingTask) -> bool:
        """Whether a task must run apart from all others."""
        if not self._documents and not self._suspected:
            return False
        self._expire(time.monotonic())
        return pending.group.tenant in self._suspected or self._digest(pending) in self._documents

    def completed(self, pending: PendingTask) -> None:
        """A worker has run a task that it held, and lives."""
        self._documents.pop(self._digest(pending), None)
        if len(self._deaths.get(pending.group.tenant, ())) < DEATHS_MAX:
            self._suspected.discard(pending.group.tenant)

    def _expire(self, now: float) -> None:
        while self._documents and next(iter(self._documents.values())) < now - RETENTION_S:
            self._documents.popitem(last=False)
        for tenant in [name for name, deaths in self._deaths.items() if deaths[-1] < now - RETENTION_S]:
            del self._deaths[tenant]
            self._suspected.discard(tenant)

    def _digest(self, pending: PendingTask) -> bytes:
        """The keyed digest of the strings of a payload. Other members, such as a key that is drawn for each request, do
        not count, so that a document keeps its digest."""
        if pending.digest is None:
            payload = pending.task.payload
            content = "\0".join((type(payload).__name__, *_strings(payload)))
            pending.digest = hmac.digest(self._key, content.encode("utf-8", "surrogatepass"), "sha256")
        return pending.digest


def _strings(payload: Any) -> Iterator[str]:
    for value in vars(payload).values() if hasattr(payload, "__dict__") else ():
        if isinstance(value, str):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from (each for each in value if isinstance(each, str))
