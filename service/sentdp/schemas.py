"""Bodies of `POST /embed/sentdp`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS, Form, Segmentation
from core.text.segment import WINDOW_WORDS, WINDOW_WORDS_MAX
from service.config.settings import DOCUMENTS_TAKEN, SENTENCES_TAKEN
from service.domains.store import DEFAULT_NAME
from service.http.choices import SentenceMechanism
from service.http.strict import AtMost, Strict, Vector, exactly_one_of

_SUBJECT = Field(None, min_length=1, max_length=256)


class Document(Strict):
    """One document, as exactly one of `text`, `sentences` and `embeddings`."""

    id: str | None = Field(None, max_length=128)
    text: str | None = Field(
        None,
        description="Raw text, which the gateway segments. By sentences it is protected for one sentence and for no "
        "single token; by words for one word.",
    )
    sentences: Annotated[list[str], AtMost(SENTENCES_TAKEN)] | None = Field(
        None, description="The text as sentences: protected for one of them, and for one token inside one."
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

    documents: Annotated[list[Document], AtMost(DOCUMENTS_TAKEN)] = Field(min_length=1)
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
        SentDPRequest(documents=[Document(text="-")], epsilon=epsilon, mechanism=name) for name in SENTENCE_MECHANISMS
    ]
    by_words = [
        body.model_copy(update={"segmentation": "words"})
        for body in by_sentences
        if SENTENCE_MECHANISMS[body.mechanism].protects != "document"
    ]
    return by_sentences + by_words
