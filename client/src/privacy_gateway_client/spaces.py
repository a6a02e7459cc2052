"""The methods of both clients, in their spaces. Each method is an operation, which has its documentation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

from privacy_gateway_client import answers
from privacy_gateway_client.cap import BudgetCap
from privacy_gateway_client.core import Core
from privacy_gateway_client.errors import Problem
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
    sanitizing,
    vectors,
)
from privacy_gateway_client.surface import Driver, Emits, Listing, Method, Space

Sanitised: TypeAlias = answers.SanitizedRow | Problem
Json: TypeAlias = dict[str, Any]


class Budget(Space[Driver]):
    """Budget queries; none of them charges."""

    accounts = Listing(budget.accounts, Emits[answers.Account]())
    account = Method(budget.account)
    headroom = Method(budget.headroom)
    remaining = Method(budget.remaining)
    journal = Listing(budget.journal, Emits[Json]())
    subjects = Listing(budget.subjects, Emits[answers.Account]())
    series = Method(budget.series)
    estimate = Method(budget.estimate)
    forecast = Method(budget_reports.forecast)
    bounds = Method(budget_reports.bounds)
    spending = Method(budget_reports.spending)
    integrity = Method(budget_reports.integrity)
    export_journal = Listing(budget_reports.export_journal, Emits[Json]())
    events = Listing(budget_reports.budget_events, Emits[Json]())


class Jobs(Space[Driver]):
    """Jobs that were submitted."""

    list = Listing(jobs.list_jobs, Emits[answers.Job]())
    get = Method(jobs.get_job)
    cancel = Method(jobs.cancel)
    events = Listing(jobs.events, Emits[answers.Job]())
    wait = Method(jobs.wait)
    artifact = Method(jobs.artifact)
    delete_artifact = Method(jobs.delete_artifact)
    card = Method(jobs.card)
    report = Method(jobs.report)
    sample = Listing(jobs.sample, Emits[Json]())
    sample_csv = Method(jobs.sample_csv)


class Models(Space[Driver]):
    """Models, presets and projections."""

    list = Method(catalogue.models)
    delete_fine_tuned = Method(catalogue.delete_fine_tuned)
    projection = Method(vectors.projection)
    presets = Method(catalogue.presets)
    preset = Method(catalogue.preset)


class Domains(Space[Driver]):
    """Domain packs."""

    list = Method(catalogue.domains)
    delete = Method(catalogue.delete_domain)


class Recognisers(Space[Driver]):
    """The tenant's own recognisers."""

    list = Listing(catalogue.list_recognisers, Emits[answers.Recogniser]())
    get = Method(catalogue.get_recogniser)
    put = Method(catalogue.put_recogniser)
    delete = Method(catalogue.delete_recogniser)
    try_out = Method(catalogue.try_recogniser)


class Accounting(Space[Driver]):
    """Calculations over plans."""

    compare = Method(catalogue.compare)
    calibrate = Method(catalogue.calibrate)


class Keys(Space[Driver]):
    """The tenant's API keys."""

    list = Method(administration.list_keys)
    create = Method(administration.create_key)
    rotate = Method(administration.rotate_key)
    revoke = Method(administration.revoke_key)


class LanguageModels(Space[Driver]):
    """Language models behind the gateway."""

    chat_completions = Method(language_models.chat_completions)
    responses = Method(language_models.responses)
    messages = Method(language_models.messages)
    stream = Listing(language_models.stream, Emits[Json]())


class Health(Space[Driver]):
    """Liveness, readiness and metrics."""

    live = Method(catalogue.live)
    ready = Method(catalogue.ready)
    metrics = Method(catalogue.metrics)


class Alerts(Space[Driver]):
    """Alerts of the tenant, or with the admin key of the operator."""

    fired = Listing(alerts.fired, Emits[Json]())
    rules = Method(alerts.rules)
    rule = Method(alerts.rule)
    put_rule = Method(alerts.put_rule)
    delete_rule = Method(alerts.delete_rule)
    send_sample = Method(alerts.send_sample)


class Admin(Space[Driver]):
    """Administration, with the admin key."""

    tenants = Method(administration.tenants)
    create_tenant = Method(administration.create_tenant)
    budgets = Listing(administration.tenant_budgets, Emits[answers.Account]())
    keys = Method(administration.tenant_keys)
    set_limit = Method(administration.set_limit)
    create_key = Method(administration.create_tenant_key)
    rotate_key = Method(administration.rotate_tenant_key)
    revoke_key = Method(administration.revoke_tenant_key)
    end_sessions = Method(administration.end_sessions)
    audit = Listing(administration.audit, Emits[Json]())
    integrity = Method(budget_reports.all_integrity)
    service = Method(budget_reports.service)

    def __init__(self, core: Core, driver: Driver) -> None:
        super().__init__(core, driver)
        self.alerts = Alerts(replace(core, alerts="/admin/alerts"), driver)


class Presidio(Space[Driver]):
    """Personal data by Presidio's contracts, and LiteLLM's guardrail."""

    analyze = Method(presidio.analyze)
    anonymize = Method(presidio.anonymize)
    deanonymize = Method(presidio.deanonymize)
    supported_entities = Method(presidio.supported_entities)
    recognizers = Method(presidio.recognizers)
    anonymizers = Method(presidio.anonymizers)
    deanonymizers = Method(presidio.deanonymizers)
    guardrail = Method(presidio.guardrail)


class Vault(Space[Driver]):
    """Entries of the tenant in the vault."""

    entries = Listing(presidio.vault, Emits[Json]())
    delete = Method(presidio.delete_vault_entry)
    clear = Method(presidio.clear_vault)


class Client(Space[Driver]):
    """What both clients offer."""

    embed_documents = Method(embedding.embed_documents)
    embed_texts = Method(embedding.embed_texts)
    embed_vectors = Method(vectors.embed_vectors)
    openai_embeddings = Method(embedding.openai_embeddings)
    sanitize = Method(sanitizing.sanitize)
    sanitize_stream = Listing(sanitizing.sanitize_stream, Emits[Sanitised]())
    restore = Method(sanitizing.restore)
    synthesize = Method(jobs.synthesize)
    finetune = Method(jobs.finetune)
    build_domain = Method(jobs.build_domain)
    tune_infill = Method(jobs.tune_infill)
    entities = Method(catalogue.entities)
    policies = Method(catalogue.policies)

    def __init__(self, core: Core, driver: Driver) -> None:
        super().__init__(core, driver)
        self.budget = Budget(core, driver)
        self.jobs = Jobs(core, driver)
        self.models = Models(core, driver)
        self.domains = Domains(core, driver)
        self.recognisers = Recognisers(core, driver)
        self.accounting = Accounting(core, driver)
        self.keys = Keys(core, driver)
        self.language_models = LanguageModels(core, driver)
        self.health = Health(core, driver)
        self.alerts = Alerts(core, driver)
        self.presidio = Presidio(core, driver)
        self.vault = Vault(core, driver)
        self.admin = Admin(core, driver)

    def budget_cap(self, epsilon: float) -> BudgetCap:
        """A context manager that refuses what would charge more than `epsilon` in its block, before it is sent."""
        return BudgetCap(epsilon)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._core.gateway!r})"
