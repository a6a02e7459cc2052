"""Recognisers of the tenant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privacy_gateway_client.answers import Recogniser
from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Op
from privacy_gateway_client.exchange import get, given, post, put
from privacy_gateway_client.operations.catalogue import delete
from privacy_gateway_client.operations.reading import fetched, fetched_json, pages

PATH = "/sanitize/recognisers"


def list_recognisers(core: Core, *, limit: int | None = None) -> Op[None]:
    """Every recogniser; patterns and terms as their numbers."""
    yield from pages(core, PATH, "recognisers", Recogniser, limit=limit)


def get_recogniser(core: Core, name: str) -> Op[Recogniser]:
    """One recogniser with its patterns and terms."""
    return (yield from fetched(core, Recogniser, get(f"{PATH}/{name}")))


def put_recogniser(core: Core, name: str, recogniser: Mapping[str, Any]) -> Op[Recogniser]:
    """Create or replace a recogniser."""
    return (yield from fetched(core, Recogniser, put(f"{PATH}/{name}", recogniser)))


def delete_recogniser(core: Core, name: str) -> Op[None]:
    yield from delete(core, f"{PATH}/{name}")


def try_recogniser(
    core: Core, recogniser: Mapping[str, Any], text: str, *, threshold: float | None = None
) -> Op[dict[str, Any]]:
    """What a recogniser finds in a text, without storing either."""
    members = given({"recogniser": recogniser, "text": text, "threshold": threshold})
    return (yield from fetched_json(core, post(f"{PATH}/test", members)))
