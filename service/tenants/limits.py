"""The current limits of a tenant's accounts, set by the operator. Used by the command and the API."""

from __future__ import annotations

from core.accounting.events import Unit
from core.amounts import limit_nano
from core.errors import InvalidInput
from core.ledger.hash_chain.admin_log import AdminLog
from core.ledger.ledger import Ledger
from core.ledger.names import account_id
from core.ledger.records import AccountState
from service.tenants.service import Number


async def set_limit(
    ledger: Ledger, log: AdminLog, tenant: str, unit: Unit, epsilon: Number, *, by: str
) -> AccountState:
    """Set what the account of a unit may spend from now on, and return the account.

    The guarantee of the account does not change. Raises InvalidInput for an epsilon that is negative or larger than
    that of the guarantee, and for an account with a plan; UnknownTenant, LedgerUnavailable.
    """
    try:
        epsilon_nano = limit_nano(epsilon)
    except ValueError:
        raise InvalidInput("epsilon is between 0 and 4000000", field="epsilon") from None
    account = account_id(tenant, unit, None)
    await ledger.lowered_limits(tenant, account, epsilon_nano)  # raises what the change would, before it is logged
    await log.append(by=by, action="tenant.limit", target=account, details={"epsilon": str(epsilon)})
    return await ledger.set_current_limit(tenant, account, epsilon_nano)
