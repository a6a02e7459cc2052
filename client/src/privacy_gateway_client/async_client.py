"""The asynchronous client. Each method is an operation, which has its documentation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from types import TracebackType
from typing import ParamSpec, TypeVar

import httpx
from typing_extensions import Self, Unpack

from privacy_gateway_client import alert_answers, answers
from privacy_gateway_client.async_driver import AsyncDriver
from privacy_gateway_client.cap import BudgetCap
from privacy_gateway_client.connection import EventData, Sanitised, Settings, Space, SyntheticRow, http_options
from privacy_gateway_client.core import Core
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
from privacy_gateway_client.surface import Emits, Method, Operation

P = ParamSpec("P")
T = TypeVar("T")


def awaiting(operation: Operation[P, T]) -> Method[P, Awaitable[T]]:
    """A method that returns a coroutine."""
    return Method(operation, AsyncDriver.run)


def listing_async(operation: Operation[P, None], _: Emits[T]) -> Method[P, AsyncIterator[T]]:
    """As `listing`, for `async for`."""
    return Method(operation, AsyncDriver.iterate)


class AsyncBudget(Space[AsyncDriver]):
    """Budget queries; none of them charges."""

    accounts = listing_async(budget.accounts, Emits[answers.Account]())
    account = awaiting(budget.account)
    headroom = awaiting(budget.headroom)
    remaining = awaiting(budget.remaining)
    journal = listing_async(budget.journal, Emits[answers.JournalEntry]())
    subjects = listing_async(budget.subjects, Emits[answers.Account]())
    series = awaiting(budget.series)
    estimate = awaiting(budget.estimate)
    forecast = awaiting(budget_reports.forecast)
    bounds = awaiting(budget_reports.bounds)
    spending = awaiting(budget_reports.spending)
    integrity = awaiting(budget_reports.integrity)
    export_journal = listing_async(budget_reports.export_journal, Emits[answers.ExportedEntry]())
    events = listing_async(budget_reports.budget_events, Emits[answers.BudgetChanged]())


class AsyncJobs(Space[AsyncDriver]):
    """Jobs that were submitted."""

    list = listing_async(jobs.list_jobs, Emits[answers.Job]())
    get = awaiting(jobs.get_job)
    cancel = awaiting(jobs.cancel)
    events = listing_async(jobs.events, Emits[answers.Job]())
    wait = awaiting(jobs.wait)
    artifact = awaiting(jobs.artifact)
    delete_artifact = awaiting(jobs.delete_artifact)
    card = awaiting(jobs.card)
    report = awaiting(jobs.report)
    sample = listing_async(jobs.sample, Emits[SyntheticRow]())
    sample_csv = awaiting(jobs.sample_csv)


class AsyncModels(Space[AsyncDriver]):
    """Models, presets and projections."""

    list = awaiting(catalogue.models)
    delete_fine_tuned = awaiting(catalogue.delete_fine_tuned)
    projection = awaiting(vectors.projection)
    presets = awaiting(catalogue.presets)
    preset = awaiting(catalogue.preset)


class AsyncDomains(Space[AsyncDriver]):
    """Domain packs."""

    list = awaiting(catalogue.domains)
    delete = awaiting(catalogue.delete_domain)


class AsyncRecognisers(Space[AsyncDriver]):
    """The tenant's own recognisers."""

    list = listing_async(recognisers.list_recognisers, Emits[answers.Recogniser]())
    get = awaiting(recognisers.get_recogniser)
    put = awaiting(recognisers.put_recogniser)
    delete = awaiting(recognisers.delete_recogniser)
    try_out = awaiting(recognisers.try_recogniser)


class AsyncAccounting(Space[AsyncDriver]):
    """Calculations over plans."""

    compare = awaiting(catalogue.compare)
    calibrate = awaiting(catalogue.calibrate)


class AsyncKeys(Space[AsyncDriver]):
    """The tenant's API keys."""

    list = awaiting(administration.list_keys)
    create = awaiting(administration.create_key)
    rotate = awaiting(administration.rotate_key)
    revoke = awaiting(administration.revoke_key)


class AsyncLanguageModels(Space[AsyncDriver]):
    """Language models behind the gateway."""

    chat_completions = awaiting(language_models.chat_completions)
    responses = awaiting(language_models.responses)
    messages = awaiting(language_models.messages)
    stream = listing_async(language_models.stream, Emits[EventData]())


class AsyncHealth(Space[AsyncDriver]):
    """Liveness, readiness and metrics."""

    live = awaiting(catalogue.live)
    ready = awaiting(catalogue.ready)
    metrics = awaiting(catalogue.metrics)


class AsyncAdmin(Space[AsyncDriver]):
    """Administration, with the admin key."""

    tenants = awaiting(administration.tenants)
    create_tenant = awaiting(administration.create_tenant)
    budgets = listing_async(administration.tenant_budgets, Emits[answers.Account]())
    keys = awaiting(administration.tenant_keys)
    set_limit = awaiting(administration.set_limit)
    create_key = awaiting(administration.create_tenant_key)
    rotate_key = awaiting(administration.rotate_tenant_key)
    revoke_key = awaiting(administration.revoke_tenant_key)
    end_sessions = awaiting(administration.end_sessions)
    audit = listing_async(administration.audit, Emits[answers.AuditEntry]())
    fired_alerts = listing_async(alerts.operator_fired, Emits[alert_answers.Alert]())
    alert_rules = awaiting(alerts.operator_rules)
    alert_rule = awaiting(alerts.operator_rule)
    put_alert_rule = awaiting(alerts.put_operator_rule)
    delete_alert_rule = awaiting(alerts.delete_operator_rule)
    send_alert_sample = awaiting(alerts.send_operator_sample)
    integrity = awaiting(budget_reports.all_integrity)
    service = awaiting(budget_reports.service)


class AsyncAlerts(Space[AsyncDriver]):
    """Alerts of the tenant."""

    fired = listing_async(alerts.fired, Emits[alert_answers.Alert]())
    rules = awaiting(alerts.rules)
    rule = awaiting(alerts.rule)
    put_rule = awaiting(alerts.put_rule)
    delete_rule = awaiting(alerts.delete_rule)
    send_sample = awaiting(alerts.send_sample)


class AsyncPresidio(Space[AsyncDriver]):
    """Personal data by Presidio's contracts, and LiteLLM's guardrail."""

    analyze = awaiting(presidio.analyze)
    anonymize = awaiting(presidio.anonymize)
    deanonymize = awaiting(presidio.deanonymize)
    supported_entities = awaiting(presidio.supported_entities)
    recognizers = awaiting(presidio.recognizers)
    anonymizers = awaiting(presidio.anonymizers)
    deanonymizers = awaiting(presidio.deanonymizers)
    guardrail = awaiting(presidio.guardrail)


class AsyncVault(Space[AsyncDriver]):
    """Entries of the tenant in the vault."""

    entries = listing_async(presidio.vault, Emits[alert_answers.VaultEntry]())
    delete = awaiting(presidio.delete_vault_entry)
    clear = awaiting(presidio.clear_vault)


class AsyncGateway:
    """An asynchronous client of the gateway at `base_url`, for one API key; one event loop uses it.

    settings: see `Settings`. Close it, or use it by `async with`.
    """

    embed_documents = awaiting(embedding.embed_documents)
    embed_texts = awaiting(embedding.embed_texts)
    embed_vectors = awaiting(vectors.embed_vectors)
    openai_embeddings = awaiting(embedding.openai_embeddings)
    sanitize = awaiting(sanitizing.sanitize)
    sanitize_stream = listing_async(sanitizing.sanitize_stream, Emits[Sanitised]())
    restore = awaiting(sanitizing.restore)
    synthesize = awaiting(jobs.synthesize)
    finetune = awaiting(jobs.finetune)
    build_domain = awaiting(jobs.build_domain)
    tune_infill = awaiting(jobs.tune_infill)
    entities = awaiting(catalogue.entities)
    policies = awaiting(catalogue.policies)

    def __init__(self, base_url: str, api_key: str, **settings: Unpack[Settings]) -> None:
        transport = settings.get("async_transport")
        http = httpx.AsyncClient(transport=transport, **http_options(base_url, api_key, settings))
        self._core = Core.of(base_url, settings)
        self._driver = AsyncDriver(http)
        self.budget = AsyncBudget(self._core, self._driver)
        self.jobs = AsyncJobs(self._core, self._driver)
        self.models = AsyncModels(self._core, self._driver)
        self.domains = AsyncDomains(self._core, self._driver)
        self.recognisers = AsyncRecognisers(self._core, self._driver)
        self.accounting = AsyncAccounting(self._core, self._driver)
        self.keys = AsyncKeys(self._core, self._driver)
        self.language_models = AsyncLanguageModels(self._core, self._driver)
        self.health = AsyncHealth(self._core, self._driver)
        self.alerts = AsyncAlerts(self._core, self._driver)
        self.presidio = AsyncPresidio(self._core, self._driver)
        self.vault = AsyncVault(self._core, self._driver)
        self.admin = AsyncAdmin(self._core, self._driver)

    def budget_cap(self, epsilon: float) -> BudgetCap:
        """A context manager that refuses what would charge more than `epsilon` in its block, before it is sent."""
        return BudgetCap(epsilon)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._core.gateway!r})"

    async def close(self) -> None:
        await self._driver.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
