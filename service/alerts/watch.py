"""The background work of alerts: one of the gateways of a ledger evaluates and delivers, by a lease in Redis.

A ledger that contradicts its seals is neither read nor written. Each gateway that finds this sends the alert of
integrity rules from memory, with back-off: there is no outbox, and its id is one of this gateway.
"""

import asyncio
import contextlib
import logging
import secrets
import time

from core.errors import LedgerError
from core.state.alerts import Alert, AlertStore, new_alert_id
from service.alerts.delivery import DELIVERED, NO_WEBHOOK, Deliverer, DeliveryLimits, WebhookSender, send
from service.alerts.evaluation import Evaluator, Rule, RuleBook, event_body
from service.alerts.schemas import Integrity
from service.alerts.view import LEDGER, Sources

log = logging.getLogger("privacy_gateway.alerts")

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
