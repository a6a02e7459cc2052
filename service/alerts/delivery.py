"""The background work of alerts: one of the gateways of a ledger evaluates and delivers, by a lease in Redis.

Deliveries come from the outbox, and are webhooks in the format of Standard Webhooks.

Each delivery is tried with back-off until it succeeds or has been tried often enough. No owner can stop another: the
owners whose deliveries are due the longest come first, and each has few at a time. A webhook is signed with an HMAC
over the id, the time and the body.

Guarantee: a webhook goes to an address that was checked (`service/outbound.py`). Private and loopback
addresses, and `http://`, are for gateways whose setting allows them. Redirects are not followed, certificates are
verified, and of the answer only the status is read.

A ledger that contradicts its seals is neither read nor written. Each gateway that finds this sends the alert of
integrity rules from memory, with back-off: there is no outbox, and its id is one of this gateway.
"""

import asyncio
import contextlib
import hmac
import logging
import random
import secrets
import ssl
import time
from base64 import b64decode, b64encode
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpcore

from core.errors import InvalidInput, LedgerError
from core.state.alerts import Alert, AlertStore, TakenDelivery, new_alert_id
from service import metrics
from service.alerts.evaluation import Evaluator, Rule, RuleBook, event_body
from service.alerts.rules import LEDGER, Sources
from service.alerts.schemas import Integrity
from service.config.providers import is_address
from service.outbound import CheckedNetwork, NotConnected, Resolve, admitted, system_resolve

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


log = logging.getLogger("privacy_gateway.alerts")

PER_OWNER = 2
OWNERS_LOOKED_AT = 256
CLAIM_MARGIN_S = 60.0
NO_WEBHOOK = "no-webhook"  # the rule was deleted or changed
UNFORESEEN = "unforeseen"  # an error of the gateway's own, which counts as an attempt


@dataclass(frozen=True)
class DeliveryLimits:
    """`at_once` deliveries of all owners together. The n-th wait is `retry_s` times 2^(n-1), at most `retry_max_s`: all
    attempts of one delivery take about nine hours, in which a receiver that is away can be repaired."""

    at_once: int = 32
    attempts_max: int = 16
    retry_s: float = 30.0
    retry_max_s: float = 3600.0

    def wait_s(self, attempt: int) -> float:
        """The time after a failed attempt, give or take a fifth, so that receivers are not called all at once."""
        longest = min(self.retry_max_s, self.retry_s * 2.0 ** min(attempt - 1, 30))
        return longest * random.uniform(0.8, 1.2)  # noqa: S311 - not for secrecy


async def send(webhooks: WebhookSender, rule: Rule | None, event_id: str, body: bytes) -> str:
    """Send an event once. Returns `delivered` or a label that says why not. Counts the attempt."""
    if rule is None or not rule.url or not rule.secret:
        return NO_WEBHOOK
    try:
        result = await webhooks.send(rule.url, rule.secret, event_id, body)
    except Exception as error:
        log.warning("alert-delivery-failed", extra={"fields": {"kind": type(error).__name__}})
        result = UNFORESEEN
    metrics.ALERT_DELIVERIES.labels("delivered" if result == DELIVERED else "failed").inc()
    return result


class Deliverer:
    """Delivers from the outbox for the gateway that holds the lease."""

    def __init__(
        self, store: AlertStore, book: RuleBook, webhooks: WebhookSender, limits: DeliveryLimits, *, holder: str
    ) -> None:
        self._store = store
        self._book = book
        self._webhooks = webhooks
        self._limits = limits
        self._holder = holder
        self._running: dict[asyncio.Task[None], TakenDelivery] = {}

    async def round(self) -> None:
        """Begin deliveries that are due, as far as there are places. Raises LedgerUnavailable."""
        if len(self._running) >= self._limits.at_once:
            return
        busy = Counter(delivery.owner for delivery in self._running.values())
        owners = await self._store.due_owners(limit=OWNERS_LOOKED_AT)
        if owners:
            await self._book.refresh()  # a delivery whose rule is not in the book is dropped
        for owner in owners:
            free = min(self._limits.at_once - len(self._running), PER_OWNER - busy[owner])
            if free <= 0:
                continue
            claim_ms = int((2 * TIMEOUT_S + CLAIM_MARGIN_S) * 1000)
            for delivery in await self._store.take(self._holder, owner, limit=free, claim_ms=claim_ms):
                task = asyncio.create_task(self._deliver(delivery))
                self._running[task] = delivery
                task.add_done_callback(lambda ended: self._running.pop(ended, None))

    async def stop(self) -> None:
        """End what is being delivered, and let another gateway take it at once."""
        running = dict(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for task, delivery in running.items():
            if task.cancelled():
                with contextlib.suppress(LedgerError):
                    await self._store.settle(delivery, result="interrupted", wait_ms=0)

    async def _deliver(self, delivery: TakenDelivery) -> None:
        rule = self._book.find(delivery.owner, delivery.rule)
        try:
            result = await send(self._webhooks, rule, delivery.event_id, delivery.body)
            is_last = result in (DELIVERED, NO_WEBHOOK) or delivery.attempt >= self._limits.attempts_max
            wait_ms = None if is_last else int(self._limits.wait_s(delivery.attempt) * 1000)
            await self._store.settle(delivery, result=result, wait_ms=wait_ms)
            if is_last and result != DELIVERED:
                metrics.ALERT_DELIVERIES.labels("given-up").inc()
                log.warning("alert-not-delivered", extra={"fields": {"tenant": delivery.owner, "reason": result}})
        except LedgerError:
            return  # the outbox still has it, and it is due again when its claim ends
        except Exception as error:
            log.warning("alert-delivery-failed", extra={"fields": {"kind": type(error).__name__}})


LEASE_S = 30.0
DELIVERY_INTERVAL_S = 1.0
ALERT_INTERVAL_S = 10.0  # between two evaluations of the rules, about as old as the series that they read
DELIVERIES = DeliveryLimits()


class AlertWatch:
    """Runs as two tasks of a gateway; `stop` ends deliveries and gives the lease to another gateway."""

    def __init__(self, store: AlertStore, sources: Sources, webhooks: WebhookSender) -> None:
        holder = secrets.token_hex(8)
        self.book = RuleBook(store)
        self._store = store
        self._webhooks = webhooks
        self._limits = DELIVERIES
        self._holder = holder
        self._evaluator = Evaluator(store, self.book, sources, holder=holder)
        self._deliverer = Deliverer(store, self.book, webhooks, DELIVERIES, holder=holder)
        self._is_holder = False
        self._has_states = False
        self._lease_due = 0.0
        self._untrusted: asyncio.Task[None] | None = None

    async def evaluate_regularly(self) -> None:
        """Evaluate until the gateway stops, while this gateway holds the lease."""
        while True:
            await asyncio.sleep(ALERT_INTERVAL_S)
            try:
                await self._round()
            except Exception as error:  # whatever it was, the next round tries again
                self._evaluator.forget()
                log.warning("alerts-not-evaluated", extra={"fields": {"kind": type(error).__name__}})

    async def deliver_regularly(self) -> None:
        """Keep the lease, also while a round takes long, and deliver while this gateway holds it."""
        while True:
            await asyncio.sleep(min(DELIVERY_INTERVAL_S, ALERT_INTERVAL_S))
            try:
                await self._keep_lease()
                if self._is_holder:
                    await self._deliverer.round()
            except Exception as error:
                self._is_holder = False
                if not self._store.is_untrusted:
                    log.warning("alerts-not-delivered", extra={"fields": {"kind": type(error).__name__}})

    async def stop(self) -> None:
        await self._deliverer.stop()
        if self._untrusted is not None:
            self._untrusted.cancel()
            await asyncio.gather(self._untrusted, return_exceptions=True)
        with contextlib.suppress(LedgerError):
            await self._store.release_lease(self._holder)

    async def _round(self) -> None:
        if self._store.is_untrusted:
            self._is_holder = False
            if self._untrusted is None:
                self._untrusted = asyncio.create_task(self._report_untrusted())
            return
        await self.book.refresh()
        if not self._is_holder:
            self._has_states = False
            return
        if not self._has_states:
            self._evaluator.forget()
            self._has_states = True
        await self._evaluator.round()

    async def _keep_lease(self) -> None:
        """Take the lease or renew it, at intervals well below its length."""
        if time.monotonic() < self._lease_due:
            return
        self._is_holder = await self._store.take_lease(self._holder, ttl_ms=int(LEASE_S * 1000))
        self._lease_due = time.monotonic() + min(LEASE_S / 4, ALERT_INTERVAL_S)

    async def _report_untrusted(self) -> None:
        log.error("alerts-of-an-untrusted-ledger")
        rules = [rule for rule in self.book if isinstance(rule.terms, Integrity)]
        places = asyncio.Semaphore(self._limits.at_once)
        await asyncio.gather(*(self._report(rule, places) for rule in rules), return_exceptions=True)

    async def _report(self, rule: Rule, places: asyncio.Semaphore) -> None:
        now_ms = int(time.time() * 1000)
        facts = {"reason": "not-trusted"}
        alert = Alert(new_alert_id(), rule.name, rule.kind.name, rule.owner, LEDGER, now_ms, None, facts)
        for attempt in range(1, self._limits.attempts_max + 1):
            async with places:
                body = event_body("fired", alert)
                result = await send(self._webhooks, rule, f"{alert.alert_id}.fired", body)
            if result in (DELIVERED, NO_WEBHOOK):
                return
            await asyncio.sleep(self._limits.wait_s(attempt))
