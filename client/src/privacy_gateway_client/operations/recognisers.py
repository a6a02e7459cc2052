"""Recognisers of the tenant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privacy_gateway_client.answers import DraftFinds, Recogniser
from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Op, Outgoing
from privacy_gateway_client.exchange import JSON_TYPE, body_of, call, get, given, parsed, post, validated
from privacy_gateway_client.operations.catalogue import delete
from privacy_gateway_client.operations.paging import pages
from privacy_gateway_client.requests import DraftBody, RecogniserBody

PATH = "/sanitize/recognisers"


def list_recognisers(core: Core, *, limit: int | None = None) -> Op[None]:
    """Every recogniser; patterns and terms as their numbers."""
    yield from pages(core, PATH, "recognisers", Recogniser, limit=limit)


def get_recogniser(core: Core, name: str) -> Op[Recogniser]:
    """One recogniser with its patterns and terms."""
    answer = yield from call(core.retry, get(f"{PATH}/{name}"))
    return parsed(Recogniser, answer.content)


def put_recogniser(core: Core, name: str, recogniser: RecogniserBody | Mapping[str, Any]) -> Op[Recogniser]:
    """Create or replace a recogniser."""
    content = body_of(validated(RecogniserBody, recogniser))
    request = Outgoing("PUT", f"{PATH}/{name}", headers={"Content-Type": JSON_TYPE}, content=content)
    answer = yield from call(core.retry, request)
    return parsed(Recogniser, answer.content)


def delete_recogniser(core: Core, name: str) -> Op[None]:
    yield from delete(core, f"{PATH}/{name}")


def try_recogniser(
    core: Core, recogniser: RecogniserBody | Mapping[str, Any], text: str, *, threshold: float | None = None
) -> Op[DraftFinds]:
    """What a recogniser finds in a text, without storing either."""
    body = validated(DraftBody, given({"recogniser": recogniser, "text": text, "threshold": threshold}))
    answer = yield from call(core.retry, post(f"{PATH}/test", body))
    return parsed(DraftFinds, answer.content)
