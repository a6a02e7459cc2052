"""Deliveries from the outbox: each is tried with back-off until it succeeds or has been tried often enough.

No owner can stop another: the owners whose deliveries are due the longest come first, and each has few at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import Counter
from dataclasses import dataclass

from core.errors import LedgerError
from core.ledger.alerts import AlertStore, Delivery
from service import metrics
from service.alerts.book import Rule, RuleBook
from service.alerts.webhook import DELIVERED, TIMEOUT_S, WebhookSender

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
        self._running: dict[asyncio.Task[None], Delivery] = {}

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

    async def _deliver(self, delivery: Delivery) -> None:
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
