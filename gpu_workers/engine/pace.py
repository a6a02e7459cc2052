"""The limits of a role's queue, how fast its tasks arrive and its workers are: what decides the size of a batch."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from gpu_workers.engine.fair_queue import FairQueue

# While several tenants are active, a batch takes about this time on a slow device, so that the next task of another
# tenant waits for less than a full batch. A tenant is active while it waits, and for a second after its last request.
CROWDED_BATCH_S = 0.06
ACTIVE_S = 1.0

# One batch counts for at most this many times slower than those before it: the content of a text can make it slow.
_SLOWER_MAX = 4
_TOKENS_PER_S = 10_000  # of a processor with a few cores; counts until a batch has been measured


# A task that is larger than a batch is cut into pieces of this share of a batch. While several tenants wait, a batch
# takes no more than that from a tenant, so that a short task of one is not part of a batch that is full of another's.
PIECES_PER_BATCH = 8


@dataclass(frozen=True)
class QueueLimits:
    """Limits of one role's queue, all of them settings of the gateway, which have the same defaults.

    `tasks_max` and `tokens_max` are for all tenants together. Each tenant may hold `tenant_share` of what the others
    leave free: n tenants that queue as much as they may hold 1/(n+1) of the queue each at a share of one half, and as
    much remains free for the next tenant. A tenant with nothing in the queue may always queue one group of any weight,
    because requests have limits of their own, and every tenant may always queue tokens for one batch.
    """

    tasks_max: int = 16_384
    tokens_max: int = 8_000_000
    tenant_share: float = 0.5
    batch_tokens_max: int = 4096

    @property
    def piece_tokens_max(self) -> int:
        return max(1, self.batch_tokens_max // PIECES_PER_BATCH)


class Pace:
    """The pace of one role. Used on the event loop only, without locks."""

    def __init__(self, limits: QueueLimits) -> None:
        self._piece, self._full = limits.piece_tokens_max, limits.batch_tokens_max
        self._arrivals: dict[str, float] = {}  # the last one of each active tenant
        self._arrived_at = -math.inf  # the last of all
        self.gap_s = math.inf  # between the last two
        self._tokens_per_s = math.inf

    def arrived(self, tenant: str, now: float) -> None:
        """Record a request of a tenant."""
        self._arrivals[tenant] = now
        self.gap_s, self._arrived_at = now - self._arrived_at, now

    def budget(self, waiting: FairQueue[Any]) -> int:
        """The token budget of the next batch."""
        earliest = time.monotonic() - ACTIVE_S
        self._arrivals = {tenant: at for tenant, at in self._arrivals.items() if at > earliest}
        others = sum(1 for tenant in self._arrivals if waiting.held(tenant) == (0, 0))
        if waiting.tenants + others < 2 or not self.is_slow:
            return self._full
        return max(self._piece, int(self._tokens_per_s * CROWDED_BATCH_S))

    @property
    def is_slow(self) -> bool:
        """Whether a full batch takes longer than a batch should while several tenants are active."""
        return self._tokens_per_s * CROWDED_BATCH_S < self._full

    def measured(self, tokens: int, seconds: float) -> None:
        """Record the time that a worker took for a batch. Small batches say little about the speed of large ones."""
        if tokens >= self._piece and seconds > 0:
            speed = tokens / seconds
            if math.isfinite(known := self._tokens_per_s):
                speed = 0.8 * known + 0.2 * max(speed, known / _SLOWER_MAX)
            self._tokens_per_s = speed

    def tokens_in(self, seconds: float) -> int:
        """The work that the workers do in this time."""
        return int(seconds * (self._tokens_per_s if math.isfinite(self._tokens_per_s) else _TOKENS_PER_S))
