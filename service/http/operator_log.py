"""What the operator does with the admin key outside of `/admin`, for the log of administrative actions."""

from __future__ import annotations

from core.ledger.hash_chain.admin_log import AdminLog
from core.redis.names import SHARED_OWNER

BY_OPERATOR = "operator"


async def log_if_shared(log: AdminLog, owner: str, *, action: str, name: str) -> None:
    """Log an action on a job or a domain that all tenants share. Actions of a tenant are not logged."""
    if owner == SHARED_OWNER:
        await log.append(by=BY_OPERATOR, action=action, target=f"shared/{name}")
