"""Finding and replacing personal data by Presidio's contracts, LiteLLM's guardrail, and the vault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privacy_gateway_client.core import Core
from privacy_gateway_client.effects import Op
from privacy_gateway_client.exchange import get, post
from privacy_gateway_client.operations.catalogue import delete
from privacy_gateway_client.operations.reading import fetched_json, pages


def analyze(core: Core, /, text: str | Sequence[str], *, language: str = "en", **members: Any) -> Op[Any]:
    """Find personal data. `members`: those of Presidio's request."""
    return (yield from fetched_json(core, post("/analyze", {"text": text, "language": language, **members})))


def anonymize(core: Core, request: Mapping[str, Any]) -> Op[Any]:
    """Replace finds in texts."""
    return (yield from fetched_json(core, post("/anonymize", request)))


def deanonymize(core: Core, request: Mapping[str, Any]) -> Op[Any]:
    """Decrypt places of texts."""
    return (yield from fetched_json(core, post("/deanonymize", request)))


def supported_entities(core: Core, *, language: str | None = None) -> Op[Any]:
    """The types that `analyze` finds."""
    return (yield from fetched_json(core, get("/supportedentities", language=language)))


def recognizers(core: Core, *, language: str | None = None) -> Op[Any]:
    """The recognisers of `analyze`."""
    return (yield from fetched_json(core, get("/recognizers", language=language)))


def anonymizers(core: Core) -> Op[Any]:
    """The operators of `anonymize`."""
    return (yield from fetched_json(core, get("/anonymizers")))


def deanonymizers(core: Core) -> Op[Any]:
    """The operators of `deanonymize`."""
    return (yield from fetched_json(core, get("/deanonymizers")))


def guardrail(core: Core, request: Mapping[str, Any]) -> Op[Any]:
    """Mask a request of LiteLLM, or restore its answer."""
    path = "/beta/litellm_basic_guardrail_api"
    return (yield from fetched_json(core, post(path, request, repeatable=False)))


def vault(core: Core, *, limit: int | None = None) -> Op[None]:
    """The entries of the vault of the tenant."""
    yield from pages(core, "/vault", "data", None, limit=limit)


def delete_vault_entry(core: Core, entry_id: str) -> Op[None]:
    yield from delete(core, f"/vault/{entry_id}")


def clear_vault(core: Core) -> Op[None]:
    """Delete all entries of the tenant."""
    yield from delete(core, "/vault")
