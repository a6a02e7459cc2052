"""How much a role's queue holds, and how large its batches are."""

from __future__ import annotations

from dataclasses import dataclass

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
