"""What a release of a document protects, and what stays public: the texts of a response's `privacy` block.

A release costs epsilon for replacing one entry of a document's unit list. What this guarantees for the text depends on
the origin of the list:

| list | effect of replacing one token of the text | guarantee at epsilon |
| --- | --- | --- |
| sentences that the gateway finds in a text | can change their number, and several of them | a sentence |
| sentences that were sent | changes one entry | a sentence, hence a token of it |
| embeddings that were sent | is not known | an embedding, which represents a sentence |
| windows of words of a text | changes one entry (`core.text.segment.windows`) | a token |

`document_selection` protects the whole document, hence every part of it, whatever the list.

This module does not import torch: the front end prices a request before any worker receives it, and without the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from core.mechanisms.sentences.registry import SENTENCE_MECHANISMS

Segmentation = Literal["sentences", "words"]
Form = Literal["text", "sentences", "embeddings"]

_SENTENCE, _TOKEN, _DOCUMENT = "sentence", "token", "document"
_NUMBER_OF_SENTENCES = "number of sentences"


@dataclass(frozen=True)
class Protection:
    """What a release protects.

    `unit` and `adjacency` describe the neighbours; `adjacency` is a text. `units` lists every unit for which the
    response guarantees that replacing one is covered by its epsilon. `public` is what neighbours have in common, and
    what the response may therefore show. `count` is the response's name for the number of units, None if that number is
    hidden.
    """

    unit: str
    units: tuple[str, ...]
    adjacency: str
    public: tuple[str, ...]
    count: str | None

    @property
    def facts(self) -> dict[str, Any]:
        """The members of the `privacy` block."""
        return {
            "unit": self.unit,
            "units": list(self.units),
            "adjacency": self.adjacency,
            "public": list(self.public),
        }


_FOUND = Protection(
    _SENTENCE,
    (_SENTENCE,),
    "replace one of the sentences that the gateway finds in the text; this covers no single token, since a token can "
    "change how many sentences are found",
    (_NUMBER_OF_SENTENCES,),
    "sentences",
)
_SENT = Protection(
    _SENTENCE,
    (_SENTENCE, _TOKEN),
    "replace one of the sentences that were sent, or one token inside it",
    (_NUMBER_OF_SENTENCES,),
    "sentences",
)
_EMBEDDED = Protection(
    _SENTENCE,
    (_SENTENCE,),
    "replace one of the embeddings that were sent, each of which stands for one sentence",
    (_NUMBER_OF_SENTENCES,),
    "sentences",
)
_WINDOWS = Protection(
    _TOKEN,
    (_TOKEN,),
    "replace one word of the text by any other string without white space",
    ("number of words",),
    "windows",
)
_WHOLE_DOCUMENT = Protection(
    _DOCUMENT,
    (_DOCUMENT, _SENTENCE, _TOKEN),
    "replace-one document, of any number of sentences",
    (),
    None,
)

_OF_FORM: dict[Form, Protection] = {"text": _FOUND, "sentences": _SENT, "embeddings": _EMBEDDED}


def protection(
    mechanism: str, *, forms: Sequence[Form] = ("text",), segmentation: Segmentation = "sentences"
) -> Protection:
    """Return the protection of each document of a release by `mechanism`.

    `forms` are the forms of its documents. If they differ, `units` contains what is guaranteed for every document.
    Raises: ValueError for an unknown mechanism, no document, and windows of words of anything but text.
    """
    return _protection(mechanism, tuple(dict.fromkeys(forms)), segmentation)


@lru_cache(maxsize=256)
def _protection(mechanism: str, forms: tuple[Form, ...], segmentation: Segmentation) -> Protection:
    if mechanism not in SENTENCE_MECHANISMS:
        raise ValueError("unknown sentence mechanism")
    if not forms or (segmentation == "words" and set(forms) != {"text"}):
        raise ValueError("windows of words are made of text")
    if SENTENCE_MECHANISMS[mechanism].protects == "document":
        return _WHOLE_DOCUMENT
    if segmentation == "words":
        return _WINDOWS
    found = [_OF_FORM[form] for form in forms]
    return Protection(
        unit=_SENTENCE,
        units=tuple(unit for unit in found[0].units if all(unit in each.units for each in found)),
        adjacency="; ".join(each.adjacency for each in found),
        public=found[0].public,
        count=found[0].count,
    )
