"""The endpoints whose bodies a bulk release accepts, a class each: its price for a row, and what makes it.

Each one asks the endpoint's own service, for a body with one placeholder in place of the documents. So a row is priced
and released as a document of a request is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import ValidationError

from core.errors import InvalidInput
from core.text.policy import DP
from gpu_workers.bulk.releasers import DocumentRows, Releaser, SanitizedRows, TextRows
from gpu_workers.engine.protocol import Role
from service.config.settings import Settings
from service.domains.store import DomainStore
from service.http.strict import Strict, invalid_request
from service.releases.request import Price
from service.sanitize.fills import role_of
from service.sanitize.schemas import SanitizeRequest
from service.sanitize.service import SanitizeService
from service.sentdp.service import SentDPRequest, SentDPService, event_of, protection_of, tasks_of
from service.vectors.service import VectorRequest, VectorService

_PLACEHOLDER = "text"  # no limit of a document refuses it


@dataclass(frozen=True)
class Prepared:
    """What a body comes to. `price`: of one row. `chars_max`: of a row's text."""

    price: Price
    role: Role
    releaser: Releaser
    subject: str | None = None


class BulkEndpoint(Protocol):
    """One endpoint. `name`: its path, without the first slash."""

    name: str

    async def prepared(self, tenant: str, body: Mapping[str, Any]) -> Prepared:
        """Raises InvalidInput with the field of the body, and what the endpoint's service raises."""


def _body(model: type[Strict], body: Mapping[str, Any], rows: Mapping[str, Any]) -> Any:
    """The endpoint's body with these rows. Raises InvalidInput for rows in it, RequestValidationError."""
    given = [name for name in ("documents", "texts", "vectors") if name in body]
    if given:
        raise InvalidInput("the documents come from the source", field=f"body.{given[0]}")
    try:
        return model.model_validate({**body, **rows})
    except ValidationError as error:
        raise invalid_request(error, "body", "body") from None


class BulkDocuments:
    """`/embed/sentdp`."""

    name = "embed/sentdp"

    def __init__(self, settings: Settings, sentdp: SentDPService, domains: DomainStore) -> None:
        self._settings = settings
        self._sentdp = sentdp
        self._domains = domains

    async def prepared(self, tenant: str, body: Mapping[str, Any]) -> Prepared:
        own: SentDPRequest = _body(SentDPRequest, body, {"documents": [{"text": _PLACEHOLDER}]})
        await self._sentdp.release_request(tenant, own)  # checks what a request with texts is checked for
        domain = await self._domains.find(tenant, own.domain)
        event = event_of(own, self._settings, domain)
        (task,) = tasks_of(own, self._settings, dimension=domain.info.dimension, event=event, pack=domain.file)
        releaser = DocumentRows(
            task,
            domain.info.dimension,
            protection_of(own).count,
            own.window_words if own.segmentation == "words" else None,
            self._settings.sentences_per_document_max,
            is_routed=domain.is_routed,
        )
        return Prepared(await self._sentdp.price(tenant, own), Role.EMBED, releaser, own.subject)


class BulkTexts:
    """`/embed/vector` of texts."""

    name = "embed/vector"

    def __init__(self, vectors: VectorService) -> None:
        self._vectors = vectors

    async def prepared(self, tenant: str, body: Mapping[str, Any]) -> Prepared:
        own: VectorRequest = _body(VectorRequest, body, {"texts": [_PLACEHOLDER]})
        found = await self._vectors.price_of_body(tenant, own)
        price = Price(found.charges(rows=1, subject=None), found.facts)
        return Prepared(price, Role.EMBED, TextRows(found.spec, tenant), own.subject)


class BulkSanitized:
    """`/sanitize`."""

    name = "sanitize"

    def __init__(self, sanitize: SanitizeService) -> None:
        self._sanitize = sanitize

    async def prepared(self, tenant: str, body: Mapping[str, Any]) -> Prepared:
        own: SanitizeRequest = _body(SanitizeRequest, body, {"documents": [{"text": _PLACEHOLDER}]})
        for member in ("dry_run", "reversible"):
            if getattr(own, member):
                raise InvalidInput(
                    "a bulk release has no dry run, and nothing of it is restored", field=f"body.{member}"
                )
        applied = SanitizeRequest.model_construct(
            _fields_set=own.model_fields_set | {"documents"}, **dict(self._sanitize.applied(own, tenant))
        )
        model = await self._sanitize.model_of(tenant, applied)
        price, (task,) = self._sanitize.documents(tenant, applied, model)
        releaser = SanitizedRows(task, counted=applied.fill.mode != DP, spans=applied.return_spans)
        return Prepared(price, role_of(applied.fill.mode, dry_run=False), releaser)
