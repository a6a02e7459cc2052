"""The parts of alerts, by the settings: what the routes use, and the background work."""

from __future__ import annotations

from collections.abc import Callable

from core.ledger.alerts import AlertLimits, AlertStore
from core.ledger.client import LedgerClient
from core.ledger.hash_chain.admin_log import AdminLog
from core.ledger.jobs import JobStore
from core.ledger.keys import MasterKey
from core.ledger.ledger import Ledger
from core.ledger.series import LedgerSeries
from core.ledger.spending_totals import SpendingTotals
from service.alerts.delivery import DeliveryLimits
from service.alerts.service import AlertService
from service.alerts.view import Sources
from service.alerts.watch import AlertWatch
from service.alerts.webhook import WebhookSender
from service.config.settings import Settings
from service.http.rate_limit import RateLimit

DELIVERIES = DeliveryLimits()


def build_alerts(
    settings: Settings,
    client: LedgerClient,
    master_key: MasterKey,
    *,
    ledger: Ledger,
    series: LedgerSeries,
    spending: SpendingTotals,
    jobs: JobStore,
    admin_log: AdminLog,
    seal_age_s: Callable[[], float],
    samples: RateLimit,
) -> tuple[AlertService, AlertWatch]:
    """Build both; start nothing. Raises ValueError for a file of certificates that cannot be used."""
    store = AlertStore(client, master_key, limits=AlertLimits(rules_max=settings.alert_rules_per_tenant_max))
    webhooks = WebhookSender(
        private_addresses=settings.alert_webhook_private_addresses,
        ca_file=settings.alert_webhook_ca_file,
    )
    sources = Sources(
        ledger,
        series,
        spending,
        jobs,
        seal_age_s=seal_age_s,
    )
    service = AlertService(store, webhooks, admin_log, samples=samples)
    return service, AlertWatch(store, sources, webhooks, DELIVERIES, interval_s=settings.alert_interval_s)
