"""Webhooks in the format of Standard Webhooks: signed with an HMAC over the id, the time and the body.

Guarantee: a webhook goes to an address that was checked (`service/outbound/addresses.py`). Private and loopback
addresses, and `http://`, are for gateways whose setting allows them. Redirects are not followed, certificates are
verified, and of the answer only the status is read.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import ssl
import time
from base64 import b64decode, b64encode
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpcore

from core.errors import InvalidInput
from service.alerts.schemas import is_address
from service.outbound.addresses import CheckedNetwork, NotConnected, Resolve, admitted, system_resolve

SECRET_PREFIX = "whsec_"  # noqa: S105 - the mark of Standard Webhooks, no secret
SECRET_BYTES = 32
DELIVERED = "delivered"
TIMEOUT_S = 10.0  # of one delivery, from the name to the status


@dataclass(frozen=True)
class _Receiver:
    encrypted: bool
    private_addresses: bool
    connect_timeout_s: float

    @property
    def loopback_addresses(self) -> bool:
        return self.private_addresses


def new_secret() -> str:
    return SECRET_PREFIX + b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signature(secret: str, event_id: str, timestamp: int, body: bytes) -> str:
    """The header `webhook-signature`."""
    key = b64decode(secret.removeprefix(SECRET_PREFIX))
    signed = f"{event_id}.{timestamp}.".encode() + body
    return "v1," + b64encode(hmac.digest(key, signed, "sha256")).decode()


class WebhookSender:
    """Posts events. Each has a connection of its own."""

    def __init__(
        self,
        *,
        private_addresses: bool,
        timeout_s: float = TIMEOUT_S,
        ca_file: Path | None = None,
        resolve: Resolve = system_resolve,
    ) -> None:
        """Raises ValueError for a file of certificates that cannot be used."""
        self._private_addresses = private_addresses
        self._timeout_s = timeout_s
        self._resolve = resolve
        try:
            self._tls = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
        except (OSError, ssl.SSLError):
            raise ValueError("ALERT_WEBHOOK_CA_FILE holds no certificates") from None

    def check(self, url: str) -> None:
        """Raise InvalidInput for a URL that would never be called. Names are resolved at each delivery."""
        parts = urlsplit(url)
        if parts.scheme != "https" and not self._private_addresses:
            raise InvalidInput("A webhook is https://.", field="webhook.url")
        host = parts.hostname or ""
        if is_address(host) and not admitted(host, self._receiver(url)):
            raise InvalidInput("The gateway calls no webhook at such an address.", field="webhook.url")

    async def send(self, url: str, secret: str, event_id: str, body: bytes) -> str:
        """Post an event once. Returns `delivered` for a status 2xx, or else a label that says why not."""
        timestamp = int(time.time())
        headers: dict[bytes | str, bytes | str] = {
            "content-type": "application/json",
            "user-agent": "privacy-gateway",
            "webhook-id": event_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(secret, event_id, timestamp, body),
        }
        try:
            async with asyncio.timeout(self._timeout_s):
                status = await self._post(url, headers, body)
        except NotConnected as error:
            return error.reason
        except (TimeoutError, httpcore.TimeoutException):
            return "timeout"
        except httpcore.ConnectError:
            return "unreachable"
        except (httpcore.NetworkError, httpcore.ProtocolError, ssl.SSLError, OSError):
            return "broken-answer"
        return DELIVERED if 200 <= status < 300 else f"status-{status}"

    async def _post(self, url: str, headers: dict[bytes | str, bytes | str], body: bytes) -> int:
        network = CheckedNetwork(self._receiver(url), self._resolve)
        async with (
            httpcore.AsyncConnectionPool(ssl_context=self._tls, network_backend=network) as pool,
            pool.stream("POST", url, headers=headers, content=body) as response,
        ):
            return int(response.status)

    def _receiver(self, url: str) -> _Receiver:
        return _Receiver(url.startswith("https:"), self._private_addresses, self._timeout_s)
