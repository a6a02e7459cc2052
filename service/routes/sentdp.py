"""`POST /embed/sentdp`: sentence-private document embeddings.

Guarantee: pure epsilon-DP for replacing one entry of a document's unit list, of which the number of entries is public.
What that promises of the text depends on how the list came about, and the answer's `privacy` block says it
(`core.mechanisms.sentences.protection`): one sentence; one sentence or token, for sentences that the caller sent; one
word, for windows of words. By `document_selection`: for replacing the whole document, and its answer does not show how
many sentences there are.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field, model_validator

from core.accounting.events import PrivacyEvent
from core.amounts import cost_nano
from core.errors import InvalidInput
from core.files.file_version import FileVersion
from core.ledger.records import Charge
from core.mechanisms.sentences.pack_facts import DomainPackInfo
from core.mechanisms.sentences.pricing import SentenceMechanism, sentence_event, words_event
from core.mechanisms.sentences.protection import Form, Protection, Segmentation, protection
from core.text.segment import WINDOW_WORDS, WINDOW_WORDS_MAX, sentences, windows
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.tasks import EmbedRelease, EmbedTask
from service.auth import Caller, require_tenant
from service.body import JsonRoute
from service.domains import DEFAULT_NAME, Domain
from service.house import House, house
from service.release import ReleaseRequest, release
from service.reuse import Part, Parts
from service.settings import Settings
from service.strict import Strict

router = APIRouter(route_class=JsonRoute, tags=["embeddings"])

Vector = list[float]

_SUBJECT = Field(None, min_length=1, max_length=256)
_NORM_TOLERANCE = 1e-3
# A document of one unit has no other unit to hide in: its release is nearly noise at any useful epsilon.
_UNITS_FOR_UTILITY = 2


class Document(Strict):
    """One document, as exactly one of `text`, `sentences` and `embeddings`."""

    id: str | None = Field(None, max_length=128)
    text: str | None = Field(
        None,
        description="Raw text, which the gateway segments. By sentences it is protected for one sentence and for no "
        "single token; by words for one word.",
    )
    sentences: list[str] | None = Field(
        None, description="The text as sentences: protected for one of them, and for one token inside one."
    )
    embeddings: list[Vector] | None = Field(
        None, description="An embedding of each sentence, of unit length: protected for one of them."
    )
    subject: str | None = _SUBJECT

    @model_validator(mode="after")
    def _one_form(self) -> Document:
        if sum(form is not None for form in (self.text, self.sentences, self.embeddings)) != 1:
            raise ValueError("give exactly one of text, sentences and embeddings")
        return self

    @property
    def form(self) -> Form:
        if self.text is not None:
            return "text"
        return "sentences" if self.sentences is not None else "embeddings"


class SentDPRequest(Strict):
    """Body of `POST /embed/sentdp`, and of `POST /budget/estimate` for its price."""

    documents: list[Document] = Field(min_length=1)
    epsilon: float = Field(gt=0, description="Cost of each document, in epsilon.")
    mechanism: SentenceMechanism = "sentence_codes"
    domain: str = Field(DEFAULT_NAME, max_length=64)
    subject: str | None = _SUBJECT
    segmentation: Segmentation = Field(
        "sentences",
        description="What the units of a text are. `sentences`: protects a sentence; their number is public, and one "
        "token can change it. `words`: windows of words, which protect one word, debit the `token` account alone, and "
        "make the number of words public. Documents are then `text`.",
    )
    window_words: int = Field(
        WINDOW_WORDS, ge=1, le=WINDOW_WORDS_MAX, description="Words in a window, at most, by `words`."
    )
    normalize: bool = Field(False, description="Scale the caller's sentence embeddings to unit length.")
    encoding_format: Literal["float", "base64"] = "float"


def price(body: SentDPRequest, settings: Settings, pack: DomainPackInfo) -> PrivacyEvent:
    """The event that each document costs. Looks at the parameters, the documents' forms and the domain's public facts,
    never at a text.

    Raises:
        InvalidInput: epsilon outside the operator's range, too many documents, windows of anything but text.
    """
    if len(body.documents) > settings.documents_max:
        raise InvalidInput(f"at most {settings.documents_max} documents a call", field="documents")
    if not settings.epsilon_min <= body.epsilon <= settings.epsilon_max:
        raise InvalidInput(
            f"epsilon must be between {settings.epsilon_min:g} and {settings.epsilon_max:g}", field="epsilon"
        )
    noise = pack.parameters_for(cost_nano(body.epsilon)).code_noise
    if body.segmentation == "sentences":
        return sentence_event(body.mechanism, body.epsilon, noise)
    for index, document in enumerate(body.documents):
        if document.form != "text":
            raise InvalidInput("windows of words are made of `text`", field=f"documents.{index}")
    return words_event(body.mechanism, body.epsilon, noise)


def protection_of(body: SentDPRequest) -> Protection:
    """What each document of a priced body is protected against."""
    return protection(
        body.mechanism, forms=[document.form for document in body.documents], segmentation=body.segmentation
    )


def facts_of(body: SentDPRequest) -> dict[str, Any]:
    """What the privacy block of a priced body says beside the event."""
    return protection_of(body).facts | ({"window_words": body.window_words} if body.segmentation == "words" else {})


def charges_of(body: SentDPRequest, event: PrivacyEvent) -> list[Charge]:
    """What each document costs, and whom."""
    return [Charge(event, document.subject or body.subject) for document in body.documents]


def check_forms(body: SentDPRequest, domain: Domain, here: House) -> None:
    """Refuse text for a domain whose vectors are another encoder's than the gateway's. Raises InvalidInput."""
    if domain.file is None or domain.info.encoder_fingerprint == here.encoder_fingerprint:
        return
    for index, document in enumerate(body.documents):
        if document.embeddings is None:
            raise InvalidInput(
                f"this domain takes embeddings of {domain.info.dimension} dimensions", field=f"documents.{index}"
            )


def validate(
    body: SentDPRequest, settings: Settings, *, dimension: int, event: PrivacyEvent, pack: FileVersion | None = None
) -> list[EmbedTask]:
    """The documents as tasks.

    Raises:
        InvalidInput: a limit is passed, a document is empty, an embedding is ragged, not finite, of another
            dimension or not of unit length.
    """
    named = "sentences" if body.segmentation == "sentences" else "windows"
    tasks = []
    total = 0
    for index, document in enumerate(body.documents):
        place = f"documents.{index}"
        embeddings = None
        units: list[str] = []
        if document.embeddings is not None:
            embeddings = _matrix(document.embeddings, dimension=dimension, normalize=body.normalize, place=place)
        elif document.sentences is not None:
            units = document.sentences
        elif document.text is not None:
            text = _bounded(document.text, settings, place)
            units = sentences(text) if body.segmentation == "sentences" else windows(text, body.window_words)
        size = len(units) if embeddings is None else len(embeddings)
        if size == 0 or any(not unit.strip() for unit in units):
            raise InvalidInput("a document and each of its sentences must hold something", field=place)
        if sum(map(len, units)) > settings.document_chars_max:
            raise InvalidInput(f"at most {settings.document_chars_max} characters a document", field=place)
        if size > settings.sentences_per_document_max:
            raise InvalidInput(f"at most {settings.sentences_per_document_max} {named} a document", field=place)
        total += size
        tasks.append(
            EmbedTask(
                sentences=tuple(units) if embeddings is None else None,
                embeddings=embeddings,
                mechanism=body.mechanism,
                domain=body.domain,
                epsilon_nano=event.epsilon_nano,
                pack=pack,
                by_counts=event.kind == "two_geometric",
            )
        )
    if total > settings.sentences_per_request_max:
        raise InvalidInput(f"at most {settings.sentences_per_request_max} {named} a call", field="documents")
    return tasks


def _bounded(text: str, settings: Settings, place: str) -> str:
    if len(text) > settings.document_chars_max:
        raise InvalidInput(f"at most {settings.document_chars_max} characters a document", field=place)
    return text


def _matrix(rows: list[Vector], *, dimension: int, normalize: bool, place: str) -> npt.NDArray[np.float32]:
    """The caller's sentence embeddings as `float32 [k, d]`, finite after the cast and of unit length."""
    if any(len(row) != dimension for row in rows):
        raise InvalidInput(f"each embedding must have {dimension} dimensions", field=place)
    if not rows:
        return np.zeros((0, dimension), dtype=np.float32)
    with np.errstate(over="ignore"):
        matrix = np.asarray(rows, dtype=np.float64)
        norms = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
        if normalize:
            if not np.isfinite(norms).all():
                raise InvalidInput("the length of an embedding is not finite", field=place)
            matrix = matrix / np.where(norms == 0.0, 1.0, norms)[:, None]  # a zero vector stays zero
        elif not (np.abs(norms - 1.0) <= _NORM_TOLERANCE).all():
            raise InvalidInput("each embedding must have length 1, or set `normalize`", field=place)
        cast = matrix.astype(np.float32)
    if not np.isfinite(cast).all():
        raise InvalidInput("an embedding is not finite in float32", field=place)
    return cast


@router.post("/embed/sentdp", summary="Sentence-private document embeddings")
async def embed_sentdp(
    body: SentDPRequest,
    request: Request,
    caller: Annotated[Caller, Depends(require_tenant)],
    here: Annotated[House, Depends(house)],
) -> Response:
    domain = await here.domains.find(caller.tenant, body.domain)
    return await release(here, request, caller, release_of(body, domain, here))


def release_of(body: SentDPRequest, domain: Domain, here: House) -> ReleaseRequest:
    """What `body` asks for in `domain`. Raises InvalidInput as `price`, `check_forms` and `validate` do."""
    pack = domain.info
    event = price(body, here.settings, pack)
    check_forms(body, domain, here)
    count = protection_of(body).count
    tasks = validate(body, here.settings, dimension=pack.dimension, event=event, pack=domain.file)

    def render(results: list[EmbedRelease], common: dict[str, Any]) -> dict[str, Any]:
        rows = zip(body.documents, tasks, results, strict=True)
        return {
            "model": here.encoder_name if domain.file is None else pack.encoder,
            "dimension": pack.dimension,
            "data": [
                _row(index, document, task, result, body.encoding_format, count)
                for index, (document, task, result) in enumerate(rows)
            ],
            **common,
            "usage": {"documents": len(tasks)} | ({count: sum(task.size for task in tasks)} if count else {}),
        }

    release_request = ReleaseRequest(
        charges=charges_of(body, event),
        role=Role.EMBED,
        tasks=[Task(task, task.weight) for task in tasks],
        render=render,
        privacy=facts_of(body),
    )
    return replace(release_request, parts=lambda: _parts(release_request, body, event, tasks, domain, here))


def _parts(
    release_request: ReleaseRequest,
    body: SentDPRequest,
    event: PrivacyEvent,
    tasks: Sequence[EmbedTask],
    domain: Domain,
    here: House,
) -> Parts:
    """The documents, each drawn by itself. The mechanism and its epsilon are in the charges."""

    def charges(number: int) -> list[Charge]:
        return charges_of(body.model_copy(update={"documents": [body.documents[number]]}), event)

    def only(numbers: Sequence[int]) -> ReleaseRequest:
        return replace(
            release_request,
            charges=[charge for number in numbers for charge in charges(number)],
            tasks=[release_request.tasks[number] for number in numbers],
        )

    encoder = here.encoder_fingerprint.encode()
    origins = (
        [b"embeddings", domain.digest.encode(), task.embeddings.tobytes()]
        if task.embeddings is not None
        else [b"sentences", domain.digest.encode(), encoder, *(text.encode() for text in task.sentences or ())]
        for task in tasks
    )
    return Parts(
        parts=[Part(charges(number), origin) for number, origin in enumerate(origins)],
        only=only,
        pack=lambda result: result.space.encode() + b"\0" + result.vector.astype("<f4").tobytes(),
        unpack=_unpacked,
    )


def _unpacked(content: bytes) -> EmbedRelease:
    space, _, vector = content.partition(b"\0")
    return EmbedRelease(np.frombuffer(vector, dtype="<f4"), space.decode())


def _row(
    index: int,
    document: Document,
    task: EmbedTask,
    result: EmbedRelease,
    encoding_format: str,
    count: str | None,
) -> dict[str, Any]:
    row: dict[str, Any] = {"index": index}
    if document.id is not None:
        row["id"] = document.id
    if encoding_format == "base64":
        row["embedding"] = base64.b64encode(result.vector.astype("<f4").tobytes()).decode()
    else:
        row["embedding"] = result.vector
    row["space"] = result.space
    if count is None:
        return row
    row[count] = task.size
    if task.size < _UNITS_FOR_UTILITY:
        row["utility"] = "low"
    return row
