"""The blocking client. Each method is an operation, which has its documentation."""

from __future__ import annotations

from types import TracebackType

import httpx
from typing_extensions import Self, Unpack

from privacy_gateway_client import alert_answers, answers
from privacy_gateway_client.cap import BudgetCap
from privacy_gateway_client.connection import EventData, Sanitised, Settings, Space, SyntheticRow, http_options
from privacy_gateway_client.core import Core
from privacy_gateway_client.drivers import BlockingDriver
from privacy_gateway_client.operations import (
    administration,
    alerts,
    budget,
    budget_reports,
    catalogue,
    embedding,
    jobs,
    language_models,
    presidio,
    recognisers,
    sanitizing,
    vectors,
)
from privacy_gateway_client.surface import Emits, blocking, listing


class Budget(Space[BlockingDriver]):
    """Budget queries; none of them charges."""

    accounts = listing(budget.accounts, Emits[answers.Account]())
    account = blocking(budget.account)
    headroom = blocking(budget.headroom)
    remaining = blocking(budget.remaining)
    journal = listing(budget.journal, Emits[answers.JournalEntry]())
    subjects = listing(budget.subjects, Emits[answers.Account]())
    series = blocking(budget.series)
    estimate = blocking(budget.estimate)
    forecast = blocking(budget_reports.forecast)
    bounds = blocking(budget_reports.bounds)
    spending = blocking(budget_reports.spending)
    integrity = blocking(budget_reports.integrity)
    export_journal = listing(budget_reports.export_journal, Emits[answers.ExportedEntry]())
    events = listing(budget_reports.budget_events, Emits[answers.BudgetChanged]())


class Jobs(Space[BlockingDriver]):
    """Jobs that were submitted."""

    list = listing(jobs.list_jobs, Emits[answers.Job]())
    get = blocking(jobs.get_job)
    cancel = blocking(jobs.cancel)
    events = listing(jobs.events, Emits[answers.Job]())
    wait = blocking(jobs.wait)
    artifact = blocking(jobs.artifact)
    delete_artifact = blocking(jobs.delete_artifact)
    card = blocking(jobs.card)
    report = blocking(jobs.report)
    sample = listing(jobs.sample, Emits[SyntheticRow]())
    sample_csv = blocking(jobs.sample_csv)


class Models(Space[BlockingDriver]):
    """Models, presets and projections."""

    list = blocking(catalogue.models)
    delete_fine_tuned = blocking(catalogue.delete_fine_tuned)
    projection = blocking(vectors.projection)
    presets = blocking(catalogue.presets)
    preset = blocking(catalogue.preset)


class Domains(Space[BlockingDriver]):
    """Domain packs."""

    list = blocking(catalogue.domains)
    delete = blocking(catalogue.delete_domain)


class Recognisers(Space[BlockingDriver]):
    """The tenant's own recognisers."""

    list = listing(recognisers.list_recognisers, Emits[answers.Recogniser]())
    get = blocking(recognisers.get_recogniser)
    put = blocking(recognisers.put_recogniser)
    delete = blocking(recognisers.delete_recogniser)
    try_out = blocking(recognisers.try_recogniser)


class Accounting(Space[BlockingDriver]):
    """Calculations over plans."""

    compare = blocking(catalogue.compare)
    calibrate = blocking(catalogue.calibrate)


class Keys(Space[BlockingDriver]):
    """The tenant's API keys."""

    list = blocking(administration.list_keys)
    create = blocking(administration.create_key)
    rotate = blocking(administration.rotate_key)
    revoke = blocking(administration.revoke_key)


class LanguageModels(Space[BlockingDriver]):
    """Language models behind the gateway."""

    chat_completions = blocking(language_models.chat_completions)
    responses = blocking(language_models.responses)
    messages = blocking(language_models.messages)
    stream = listing(language_models.stream, Emits[EventData]())


class Health(Space[BlockingDriver]):
    """Liveness, readiness and metrics."""

    live = blocking(catalogue.live)
    ready = blocking(catalogue.ready)
    metrics = blocking(catalogue.metrics)


class Admin(Space[BlockingDriver]):
    """Administration, with the admin key."""

    tenants = blocking(administration.tenants)
    create_tenant = blocking(administration.create_tenant)
    budgets = listing(administration.tenant_budgets, Emits[answers.Account]())
    keys = blocking(administration.tenant_keys)
    set_limit = blocking(administration.set_limit)
    create_key = blocking(administration.create_tenant_key)
    rotate_key = blocking(administration.rotate_tenant_key)
    revoke_key = blocking(administration.revoke_tenant_key)
    end_sessions = blocking(administration.end_sessions)
    audit = listing(administration.audit, Emits[answers.AuditEntry]())
    fired_alerts = listing(alerts.operator_fired, Emits[alert_answers.Alert]())
    alert_rules = blocking(alerts.operator_rules)
    alert_rule = blocking(alerts.operator_rule)
    put_alert_rule = blocking(alerts.put_operator_rule)
    delete_alert_rule = blocking(alerts.delete_operator_rule)
    send_alert_sample = blocking(alerts.send_operator_sample)
    integrity = blocking(budget_reports.all_integrity)
    service = blocking(budget_reports.service)


class Alerts(Space[BlockingDriver]):
    """Alerts of the tenant."""

    fired = listing(alerts.fired, Emits[alert_answers.Alert]())
    rules = blocking(alerts.rules)
    rule = blocking(alerts.rule)
    put_rule = blocking(alerts.put_rule)
    delete_rule = blocking(alerts.delete_rule)
    send_sample = blocking(alerts.send_sample)


class Presidio(Space[BlockingDriver]):
    """Personal data by Presidio's contracts, and LiteLLM's guardrail."""

    analyze = blocking(presidio.analyze)
    anonymize = blocking(presidio.anonymize)
    deanonymize = blocking(presidio.deanonymize)
    supported_entities = blocking(presidio.supported_entities)
    recognizers = blocking(presidio.recognizers)
    anonymizers = blocking(presidio.anonymizers)
    deanonymizers = blocking(presidio.deanonymizers)
    guardrail = blocking(presidio.guardrail)


class Vault(Space[BlockingDriver]):
    """Entries of the tenant in the vault."""

    entries = listing(presidio.vault, Emits[alert_answers.VaultEntry]())
    delete = blocking(presidio.delete_vault_entry)
    clear = blocking(presidio.clear_vault)


class Gateway:
    """A client of the gateway at `base_url`, for one API key; several threads may share it.

    settings: see `Settings`. Close it, or use it as a context manager.
    """

    embed_documents = blocking(embedding.embed_documents)
    embed_texts = blocking(embedding.embed_texts)
    embed_vectors = blocking(vectors.embed_vectors)
    openai_embeddings = blocking(embedding.openai_embeddings)
    sanitize = blocking(sanitizing.sanitize)
    sanitize_stream = listing(sanitizing.sanitize_stream, Emits[Sanitised]())
    restore = blocking(sanitizing.restore)
    synthesize = blocking(jobs.synthesize)
    finetune = blocking(jobs.finetune)
    build_domain = blocking(jobs.build_domain)
    tune_infill = blocking(jobs.tune_infill)
    entities = blocking(catalogue.entities)
    policies = blocking(catalogue.policies)

    def __init__(self, base_url: str, api_key: str, **settings: Unpack[Settings]) -> None:
        transport = settings.get("transport")
        http = httpx.Client(transport=transport, **http_options(base_url, api_key, settings))
        self._core = Core.of(base_url, settings)
        self._driver = BlockingDriver(http)
        self.budget = Budget(self._core, self._driver)
        self.jobs = Jobs(self._core, self._driver)
        self.models = Models(self._core, self._driver)
        self.domains = Domains(self._core, self._driver)
        self.recognisers = Recognisers(self._core, self._driver)
        self.accounting = Accounting(self._core, self._driver)
        self.keys = Keys(self._core, self._driver)
        self.language_models = LanguageModels(self._core, self._driver)
        self.health = Health(self._core, self._driver)
        self.alerts = Alerts(self._core, self._driver)
        self.presidio = Presidio(self._core, self._driver)
        self.vault = Vault(self._core, self._driver)
        self.admin = Admin(self._core, self._driver)

    def budget_cap(self, epsilon: float) -> BudgetCap:
        """A context manager that refuses what would charge more than `epsilon` in its block, before it is sent."""
        return BudgetCap(epsilon)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._core.gateway!r})"

    def close(self) -> None:
        self._driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
