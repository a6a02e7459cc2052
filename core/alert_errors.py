"""The errors of alerts, a part of the tree in `core.errors`."""

from __future__ import annotations

from core.errors import GatewayError


class UnknownAlertRule(GatewayError):
    """The owner has no rule of that name, or it is another owner's."""

    code = "unknown-alert-rule"
    title = "There is no such rule of alerts."
