"""The error of moves of tenants between ledgers, a part of the tree in `core.errors`."""

from __future__ import annotations

from core.errors import LedgerError


class MoveRefused(LedgerError):
    """The move cannot begin or go on. `detail` has the reason."""

    code = "move-refused"
    title = "The tenant cannot be moved between these ledgers."
