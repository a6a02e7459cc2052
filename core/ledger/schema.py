"""The schema of a ledger: the form of its keys and records.

Guarantee: a gateway or a command uses only a ledger of its own schema. The first check of an empty ledger writes the
number, and every check and new connection compares it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from core.errors import LedgerUnavailable
from core.ledger import names

SCHEMA = b"1"

Call = Callable[..., Awaitable[Any]]  # one Redis command


async def check_schema(call: Call) -> None:
    """Refuse a ledger of another schema. One without a number is new. Raises LedgerUnavailable."""
    found = await call("GET", names.VERSION_KEY)
    if found not in (None, SCHEMA):
        raise LedgerUnavailable(
            f"The ledger has the schema {found.decode('ascii', 'replace')[:20]}, and this version of the gateway needs "
            f"{SCHEMA.decode()}; see docs/operating/upgrades.md."
        )
