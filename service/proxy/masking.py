"""Masks the fields of a request.

It imports lists of names and words, so the front end loads it with the first request.
"""

from __future__ import annotations

from collections.abc import Sequence

from core.text.languages import LANGUAGES
from core.text.reversible.conversation import mask_conversation
from core.text.reversible.mapping import Mapping
from core.text.reversible.places import Region
from service.proxy.outgoing import Field
from service.proxy.recognition import Read, main_language


def mask(
    fields: Sequence[Field], reads: Sequence[Sequence[Read]], *, key: bytes, language: str | None, fill: str
) -> Mapping:
    """Mask the fields in place. Returns the surrogates of the conversation. Raises TaskFailed as
    `mask_conversation`."""
    texts = [text for each in fields for text in each.texts]
    flat = [read for own in reads for read in own]
    masked = mask_conversation(
        texts,
        [[Region(*region) for region in read.regions] for read in flat],
        key=key,
        language=language or main_language(texts, flat, LANGUAGES),
        fill=fill,
    )
    at = 0
    for each in fields:
        each.write(masked.texts[at : at + len(each.texts)])
        at += len(each.texts)
    return masked.mapping
