"""Sentence-private document embeddings: the body, its price and its release request.

Guarantee: pure epsilon-DP for replacing one entry of a document's unit list, of which the number of entries is public.
What that promises of the text depends on how the list came about, and the answer's `privacy` block says it
(`core.mechanisms.sentences.registry`): one sentence; one sentence or token, for sentences that the caller sent; one
word, for windows of words. By `document_selection`: for replacing the whole document, and its answer does not show how
many sentences there are.
"""

import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, NotRequired

import numpy as np
import numpy.typing as npt
from pydantic import Field
from typing_extensions import TypedDict

from core import spans
from core.accounting.events import PrivacyEvent
from core.amounts import cost_nano, epsilon_of
from core.errors import InvalidInput
from core.files.disk import FileVersion
from core.ledger.records import Charge
from core.mechanisms.sentences.registry import (
    SENTENCE_MECHANISMS,
    Form,
    Protection,
    Segmentation,
    protection,
    routing_share,
    sentence_event,
    words_event,
)
from core.text.segment import WINDOW_WORDS, WINDOW_WORDS_MAX, sentences, windows
from gpu_workers.engine.protocol import Role, Task
from gpu_workers.handlers.tasks import EmbedRelease, EmbedTask
from service.config.settings import DOCUMENTS_TAKEN, SENTENCES_TAKEN, Settings
from service.domains.store import DEFAULT_NAME, Domain, DomainStore
from service.http.answers import doc
from service.http.choices import SentenceMechanism
from service.http.strict import AtMost, Strict, Vector, exactly_one_of
from service.preparation import Preparation
from service.releases.answers import Account, Privacy
from service.releases.request import Price, ReleasePart, ReleaseParts, ReleaseRequest, check_epsilon
from service.workers import Workers

_SUBJECT = Field(None, min_length=1, max_length=256)


class DocumentBody(Strict):
    """One document, as exactly one of `text`, `sentences` and `embeddings`."""

    id: str | None = Field(None, max_length=128)
    text: str | None = Field(
        None,
        description="Raw text, which the gateway segments. By sentences it is protected for one sentence and for no "
        "single token; by words for one word.",
    )
    sentences: Annotated[list[str], AtMost(SENTENCES_TAKEN)] | None = Field(
        None,
        description="The text as sentences: protected for one of them, and for one token inside one. The encoder reads "
        "the first `tokens_max` tokens of each (`GET /models`); those of `text` are divided.",
    )
    embeddings: Annotated[list[Vector], AtMost(SENTENCES_TAKEN)] | None = Field(
        None, description="An embedding of each sentence, of unit length: protected for one of them."
    )
    subject: str | None = _SUBJECT

    _one_form = exactly_one_of("text", "sentences", "embeddings")

    @property
    def form(self) -> Form:
        if self.text is not None:
            return "text"
        return "sentences" if self.sentences is not None else "embeddings"


class SentDPRequest(Strict):
    """Body of `POST /embed/sentdp`, and of `POST /budget/estimate` for its price."""

    documents: Annotated[list[DocumentBody], AtMost(DOCUMENTS_TAKEN)] = Field(min_length=1)
    epsilon: float = Field(gt=0, description="Cost of each document, in epsilon.")
    mechanism: SentenceMechanism = "sentence_codes"
    domain: str = Field(
        DEFAULT_NAME,
        max_length=64,
        description="A domain of `GET /domains`. `auto`, for `sentence_codes` alone: one of the installed packs for "
        "each document, which a part of epsilon chooses privately. `routing` in the `privacy` block is the most that "
        "the choice costs of a document's epsilon: a document with too few sentences for a choice gets the default "
        "pack, spends nothing on the choice, and the whole epsilon on its vector. Each row of `data` names its pack in "
        "`domain`, which is private within the same epsilon as the vector.",
    )
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

    @property
    def size(self) -> int:
        """The characters of all texts and sentences, and the numbers of all embeddings."""
        return sum(
            len(document.text or "")
            + sum(map(len, document.sentences or ()))
            + sum(map(len, document.embeddings or ()))
            for document in self.documents
        )


def typical(epsilon: float) -> list[SentDPRequest]:
    """One text by each mechanism, by sentences and by windows of words."""
    by_sentences = [
        SentDPRequest(documents=[DocumentBody(text="-")], epsilon=epsilon, mechanism=name)
        for name in SENTENCE_MECHANISMS
    ]
    by_words = [
        body.model_copy(update={"segmentation": "words"})
        for body in by_sentences
        if SENTENCE_MECHANISMS[body.mechanism].protects != "document"
    ]
    return by_sentences + by_words


class DocumentVector(TypedDict):
    """The released vector of a document."""

    index: Annotated[int, doc("The place of the document in the request, from 0.")]
    id: NotRequired[Annotated[str, doc("The id that the caller gave; absent for none.")]]
    embedding: Annotated[list[float] | str, doc("The vector; as base64 of float32, little-endian, where asked for.")]
    space: Annotated[str, doc("The space of the vector: vectors of different spaces cannot be compared.")]
    domain: NotRequired[Annotated[str, doc("The domain that the gateway chose; with the domain `auto`.")]]
    sentences: NotRequired[Annotated[int, doc("How many sentences; absent for `document_selection`.")]]
    windows: NotRequired[Annotated[int, doc("How many windows; with the segmentation `words`.")]]
    utility: NotRequired[Annotated[str, doc("`low` for a document of few sentences, else absent.")]]
    reused_from: NotRequired[Annotated[str, doc("The earlier release that answers it; where releases are reused.")]]


class DocumentUsage(TypedDict):
    """What an answer is about, in numbers."""

    documents: Annotated[int, doc("How many documents.")]
    sentences: NotRequired[Annotated[int, doc("How many sentences; absent for `document_selection`.")]]
    windows: NotRequired[Annotated[int, doc("How many windows; with the segmentation `words`.")]]


class DocumentEmbeddings(TypedDict):
    """Released vectors of documents."""

    model: Annotated[str, doc("The encoder.")]
    dimension: Annotated[int, doc("The dimension of the vectors.")]
    data: Annotated[list[DocumentVector], doc("A row for each document, in their order.")]
    privacy: Annotated[Privacy, doc("The guarantee of each document.")]
    budget: Annotated[Account, doc("The account with the least left of those that paid.")]
    usage: Annotated[DocumentUsage, doc("What was released.")]


_NORM_TOLERANCE = 1e-3
# A document of one unit has no other unit to hide in: its release is nearly noise at any useful epsilon.
_UNITS_FOR_UTILITY = 2


class SentDPService:
    """Prices bodies of `POST /embed/sentdp` and makes release requests of them."""

    body = SentDPRequest

    def __init__(self, settings: Settings, *, domains: DomainStore, workers: Workers, preparation: Preparation) -> None:
        self._settings = settings
        self._domains = domains
        self._workers = workers
        self._preparation = preparation

    async def price(self, tenant: str, body: SentDPRequest) -> Price:
        """What `body` costs. Looks at the parameters, the documents' forms and the domain's public facts, not at text.

        Raises InvalidInput as `event_of`, and for an unknown domain; InstalledFileBroken.
        """
        domain = await self._domains.find(tenant, body.domain)
        event = event_of(body, self._settings, domain)
        return Price(charges_of(body, event), facts_of(body, domain))

    async def dimension(self, tenant: str, domain: str) -> int:
        """Of the vectors of a domain. Raises InvalidInput, InstalledFileBroken."""
        return (await self._domains.find(tenant, domain)).info.dimension

    @spans.step("validate and price")
    async def release_request(self, tenant: str, body: SentDPRequest) -> ReleaseRequest:
        """The release that `body` describes. Raises as `price`, and InvalidInput as `tasks_of`; WorkerCold for a
        domain of one's own. A replay of the general domain needs no worker."""
        domain = await self._domains.find(tenant, body.domain)
        pack = domain.info
        event = event_of(body, self._settings, domain)
        self._check_forms(body, domain)
        count = protection_of(body).count
        tasks = await self._preparation.run(
            tenant, body.size, tasks_of, body, self._settings, dimension=pack.dimension, event=event, pack=domain.file
        )

        def render(results: list[EmbedRelease], common: dict[str, Any]) -> dict[str, Any]:
            rows = zip(body.documents, tasks, results, strict=True)
            return {
                "model": self._workers.encoder_name if domain.file is None else pack.encoder,
                "dimension": pack.dimension,
                "data": [
                    _row(index, document, task, result, body.encoding_format, count)
                    for index, (document, task, result) in enumerate(rows)
                ],
                **common,
                "usage": {"documents": len(tasks)} | ({count: sum(task.size for task in tasks)} if count else {}),
            }

        whole = ReleaseRequest(
            charges=charges_of(body, event),
            role=Role.EMBED,
            tasks=[Task(task, task.weight) for task in tasks],
            render=render,
            answer_size=lambda results: len(results) * pack.dimension,
            privacy=facts_of(body, domain),
        )
        return replace(whole, parts=lambda: self._parts(whole, body, event, tasks, domain))

    def _check_forms(self, body: SentDPRequest, domain: Domain) -> None:
        """Refuse text for a domain whose vectors are another encoder's than the gateway's. Raises InvalidInput."""
        if domain.file is None or domain.info.encoder_fingerprint == self._workers.packs_of:
            return
        for index, document in enumerate(body.documents):
            if document.embeddings is None:
                raise InvalidInput(
                    f"this domain takes embeddings of {domain.info.dimension} dimensions", field=f"documents.{index}"
                )

    def _parts(
        self,
        whole: ReleaseRequest,
        body: SentDPRequest,
        event: PrivacyEvent,
        tasks: Sequence[EmbedTask],
        domain: Domain,
    ) -> ReleaseParts:
        """The documents, each drawn by itself. The mechanism and its epsilon are in the charges."""

        def charges(number: int) -> list[Charge]:
            return charges_of(body.model_copy(update={"documents": [body.documents[number]]}), event)

        def only(numbers: Sequence[int]) -> ReleaseRequest:
            return replace(
                whole,
                charges=[charge for number in numbers for charge in charges(number)],
                tasks=[whole.tasks[number] for number in numbers],
            )

        encoder = self._workers.encoder_fingerprint.encode()
        origins = (
            [b"embeddings", domain.digest.encode(), task.embeddings.tobytes()]
            if task.embeddings is not None
            else [b"sentences", domain.digest.encode(), encoder, *(text.encode() for text in task.sentences or ())]
            for task in tasks
        )
        return ReleaseParts(
            parts=[ReleasePart(charges(number), origin) for number, origin in enumerate(origins)],
            only=only,
            pack=_packed,
            unpack=_unpacked,
        )


def event_of(body: SentDPRequest, settings: Settings, domain: Domain) -> PrivacyEvent:
    """The event that each document costs.

    Raises:
        InvalidInput: epsilon outside the operator's range, too many documents, windows of anything but text, a choice
            of the pack by a mechanism that has none.
    """
    if len(body.documents) > settings.embedded_texts_max:
        raise InvalidInput(f"at most {settings.embedded_texts_max} documents a call", field="documents")
    check_epsilon(body.epsilon, settings)
    if domain.is_routed:
        _check_routed(body)
    noise = domain.code_noise(cost_nano(body.epsilon))
    if body.segmentation == "sentences":
        return sentence_event(body.mechanism, body.epsilon, noise)
    for index, document in enumerate(body.documents):
        if document.form != "text":
            raise InvalidInput("windows of words are made of `text`", field=f"documents.{index}")
    return words_event(body.mechanism, body.epsilon, noise)


def _check_routed(body: SentDPRequest) -> None:
    if body.mechanism != "sentence_codes":
        raise InvalidInput(f"the domain `{body.domain}` is for the mechanism sentence_codes", field="mechanism")
    try:
        routing_share(cost_nano(body.epsilon))
    except ValueError as error:
        raise InvalidInput(str(error), field="epsilon") from None


def protection_of(body: SentDPRequest) -> Protection:
    """What each document of a priced body is protected against."""
    return protection(
        body.mechanism, forms=[document.form for document in body.documents], segmentation=body.segmentation
    )


def facts_of(body: SentDPRequest, domain: Domain) -> dict[str, Any]:
    """What the privacy block of a priced body says beside the event."""
    facts = protection_of(body).facts
    if body.segmentation == "words":
        facts["window_words"] = body.window_words
    if domain.is_routed:
        facts["routing"] = {"epsilon": epsilon_of(routing_share(cost_nano(body.epsilon)))}
    return facts


def charges_of(body: SentDPRequest, event: PrivacyEvent) -> list[Charge]:
    """The charge of each document."""
    return [Charge(event, document.subject or body.subject) for document in body.documents]


def tasks_of(
    body: SentDPRequest, settings: Settings, *, dimension: int, event: PrivacyEvent, pack: FileVersion | None = None
) -> list[EmbedTask]:
    """The documents as tasks for the embed workers.

    Raises:
        InvalidInput: a limit is passed, a document is empty, an embedding is ragged, not finite, of another
            dimension or not of unit length.
    """
    for index, document in enumerate(body.documents):  # before any document is segmented, which takes longer
        _check_length(document, settings, f"documents.{index}")
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
            text = document.text
            units = sentences(text) if body.segmentation == "sentences" else windows(text, body.window_words)
        size = len(units) if embeddings is None else len(embeddings)
        if size > settings.sentences_per_document_max:
            raise InvalidInput(f"at most {settings.sentences_per_document_max} {named} a document", field=place)
        total += size
        if total > settings.sentences_per_request_max:
            raise InvalidInput(f"at most {settings.sentences_per_request_max} {named} a call", field="documents")
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
    return tasks


def _check_length(document: DocumentBody, settings: Settings, place: str) -> None:
    """Refuse a document that is empty, has an empty sentence or is too long, without segmenting it."""
    units = document.sentences or ([] if document.text is None else [document.text])
    if not (units or document.embeddings) or any(not unit.strip() for unit in units):
        raise InvalidInput("a document and each of its sentences must hold something", field=place)
    if sum(map(len, units)) > settings.document_chars_max:
        raise InvalidInput(f"at most {settings.document_chars_max} characters a document", field=place)


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


def _packed(result: EmbedRelease) -> bytes:
    names = result.space if result.domain is None else f"{result.space}/{result.domain}"
    return names.encode() + b"\0" + result.vector.astype("<f4").tobytes()


def _unpacked(content: bytes) -> EmbedRelease:
    names, _, vector = content.partition(b"\0")
    space, _, domain = names.decode().partition("/")
    return EmbedRelease(np.frombuffer(vector, dtype="<f4"), space, domain or None)


def _row(
    index: int, document: DocumentBody, task: EmbedTask, result: EmbedRelease, encoding_format: str, count: str | None
) -> dict[str, Any]:
    row: dict[str, Any] = {"index": index}
    if document.id is not None:
        row["id"] = document.id
    if encoding_format == "base64":
        row["embedding"] = base64.b64encode(result.vector.astype("<f4").tobytes()).decode()
    else:
        row["embedding"] = result.vector
    row["space"] = result.space
    if result.domain is not None:
        row["domain"] = result.domain
    if count is None:
        return row
    row[count] = task.size
    if task.size < _UNITS_FOR_UTILITY:
        row["utility"] = "low"
    return row
