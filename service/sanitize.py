"""From a request of `/sanitize` to the worker's tasks, and from their results to the rows of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.text.policy import DP, Sanitised, SanitizeTask
from gpu_workers.engine.protocol import Task
from service.house import House
from service.model_fills import infill_facts, own_model, weight_of
from service.sanitize_request import Price, SanitizeRequest, Terms, TextDocument, price, validate


def cost_of(here: House, body: SanitizeRequest) -> Price:
    """What a body whose policy has been applied costs. Raises as `price` and `infill_facts`."""
    return price(body, here.settings, infill_facts(here.engine, body.fill.mode))


def prepare(here: House, tenant: str, body: SanitizeRequest) -> tuple[Price, list[SanitizeTask]]:
    """Price and tasks of a body whose policy has been applied. Raises as `price` and `validate`."""
    cost = cost_of(here, body)
    model = own_model(here.own_models, tenant, mode=body.fill.mode, name=body.fill.model)
    lists = here.policies.allow_lists(tenant)
    return cost, validate(body, here.settings, cost, allow_lists=lists, tagger_types=here.tagger_types, model=model)


def engine_task(task: SanitizeTask) -> Task:
    """The task as the engine batches it."""
    return Task(task, weight_of(task.text, task.fill))


def row(index: int, document: TextDocument, result: Sanitised, terms: Terms) -> dict[str, Any]:
    """A sanitised document as an answer shows it."""
    shown: dict[str, Any] = {"index": index}
    if document.id is not None:
        shown["id"] = document.id
    shown["text"] = result.text
    if terms.return_spans:
        shown["spans"] = [
            {"start": span.start, "end": span.end, "type": span.type, "technique": span.technique}
            for span in result.spans
        ]
    return shown | counts([result], terms)


def counts(results: Sequence[Sanitised], terms: Terms) -> dict[str, int]:
    """How many words there are, and how many are masked: by `dp` that is not told, for it depends on what was there."""
    if terms.fill.mode == DP:
        return {}
    return {
        "masked_tokens": sum(result.masked_tokens for result in results),
        "tokens": sum(result.tokens for result in results),
    }
