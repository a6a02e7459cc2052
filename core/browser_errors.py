"""Requests of browsers that are refused, part of the tree of `core.errors`.

CrossSiteRequest    a request of a browser's session does not come from the gateway's own pages
SignOnFailed        the identity provider's answer opens no session; carries `reason`
HostRefused         a browser asks for the dashboard under a name that the operator has not allowed
"""

from __future__ import annotations

from core.errors import GatewayError


class CrossSiteRequest(GatewayError):
    code = "cross-site-request"
    title = "A session of the dashboard can be used by the dashboard's own pages only."


class HostRefused(GatewayError):
    code = "host-refused"
    title = "The dashboard is not served under this host name. The setting DASHBOARD_HOSTS lists the names."


class SignOnFailed(GatewayError):
    code = "sign-on-failed"
    title = "Signing in through the identity provider has failed."

    def __init__(self, *, reason: str) -> None:
        """`reason` is a fixed word."""
        super().__init__()
        self.reason = reason
