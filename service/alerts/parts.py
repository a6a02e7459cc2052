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
from service.alerts.delivery import Channels, DeliveryLimits
from service.alerts.email import mail_server
from service.alerts.service import AlertService
from service.alerts.view import Sources
from service.alerts.watch import AlertWatch
from service.alerts.webhook import WebhookSender
from service.config.settings import Settings
from service.http.rate_limit import RateLimit


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
    """Build both; start nothing. Raises ValueError for files of certificates that cannot be used."""
    store = AlertStore(
        client,
        master_key,
        limits=AlertLimits(
            rules_max=settings.alert_rules_per_tenant_max,
            outbox_max=settings.alert_outbox_per_tenant_max,
            kept_max=settings.alerts_kept_per_tenant_max,
        ),
    )
    webhooks = WebhookSender(
        private_addresses=settings.alert_webhook_private_addresses,
        timeout_s=settings.alert_webhook_timeout_s,
        ca_file=settings.alert_webhook_ca_file,
    )
    channels = Channels(webhooks, mail_server(settings))
    sources = Sources(
        ledger,
        series,
        spending,
        jobs,
        seal_age_s=seal_age_s,
        rows_max=settings.spending_rows_max,
        forecasts_max=settings.alert_forecasts_max,
    )
    limits = DeliveryLimits(
        at_once=settings.alert_deliveries_max,
        attempts_max=settings.alert_attempts_max,
        retry_s=settings.alert_retry_s,
        retry_max_s=settings.alert_retry_max_s,
        timeout_s=max(settings.alert_webhook_timeout_s, settings.alert_smtp_timeout_s),
    )
    service = AlertService(store, channels, admin_log, email_domains=settings.alert_email_domains, samples=samples)
    return service, AlertWatch(store, sources, channels, limits, interval_s=settings.alert_interval_s)
