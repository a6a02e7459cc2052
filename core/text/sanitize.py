"""Mask a text, then fill the masked regions: `sanitize`.

Guarantee: none (no differential privacy; kept words have no protection). The property is: the characters of a masked
region are not copied to the output, and the result object contains no original string.

`inspect` and `fill_in` are the two halves, for fills of many texts at once (`core.text.replace_words`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module

from core.text.explain import suppressed_finds
from core.text.formats.form import Form
from core.text.formats.regions import FormRegions
from core.text.lists import AllowLists
from core.text.mask_entity import masks_of, searched
from core.text.masks import findings, regions_of
from core.text.origins import Origin, Origins, SuppressedFinds
from core.text.policy import FILLS, SURROGATE, Mask, MaskPolicy, Sanitised, check_fill, check_text
from core.text.recognised import NOT_RECOGNISED, Recognised
from core.text.spans import Span, Spans
from core.text.tokens import Token, tokenize
from core.text.visible import Regions, SentText, visible


@dataclass(frozen=True)
class Reading:
    """What is reported about a document beside its filled text. `sent` and `suppressed`: of an explanation."""

    language: str | None = None
    sent: Regions | None = None
    suppressed: SuppressedFinds | None = None

    def origins(self, masks: Sequence[Mask]) -> Origins | None:
        """Return the origins of `masks`; None without an explanation."""
        if self.sent is None:
            return None
        region = self.sent.region
        return Origins.of(
            Origin(*(region(mask.start, mask.end) or (0, 0)), mask.score, mask.recogniser) for mask in masks
        )


NOTHING_REPORTED = Reading()


@dataclass(frozen=True)
class Inspected:
    """A text, its tokens, and its masked regions in order. `form`: that of the document of which it is the view."""

    text: str = field(repr=False)
    tokens: Sequence[Token]
    masks: Sequence[Mask]
    reading: Reading = NOTHING_REPORTED
    form: Form | None = None

    @property
    def masked_tokens(self) -> int:
        return _masked_tokens(self.tokens, self.masks)


def inspect(
    text: str,
    policy: MaskPolicy,
    lists: AllowLists,
    recognised: Recognised = NOT_RECOGNISED,
    form: Form | None = None,
    *,
    explain: int | None = None,
) -> Inspected:
    """Return the masked regions of `visible(text)`. Deterministic for given results of a tagger.

    `form`: if `text` is its view. Then the tokens and the masked regions are those of its values.

    `recognised`: results for `visible(text)`. Those of a tagger are needed for entities that only a tagger finds.
    `explain`: as in `SanitizeTask`. It does not change the regions.

    Raises InvalidInput (unknown list or entity, text too long; before any text is read), RecogniserFailed.
    """
    check_text(text)
    if "allow_list" in policy.techniques:
        lists.words(policy.allow_list)
    text, as_sent = visible(text), text
    tokens = tokenize(text)
    if form is not None:
        tokens = form.tokens(tokens)
    if explain is not None and recognised.patterns is None and policy.requested():
        hits = searched(text, policy)
        recognised = replace(recognised, patterns=masks_of(text, hits), hits=hits)
    found = findings(text, tokens, policy, lists, recognised)
    masks = regions_of(text, found)
    inspected = Inspected(text, tokens, masks if form is None else form.restrict(masks), form=form)
    if explain is None:
        return inspected
    sent = SentText.of(as_sent) if form is None else FormRegions(form)
    suppressed = suppressed_finds(text, found, recognised, policy, sent=sent, finds_max=explain)
    return replace(inspected, reading=Reading(sent=sent, suppressed=suppressed))


def _masked_tokens(tokens: Sequence[Token], masks: Sequence[Mask]) -> int:
    count, place = 0, 0
    for start, end in tokens:
        while place < len(masks) and masks[place].end <= start:
            place += 1
        if place < len(masks) and masks[place].start < end:
            count += 1
    return count


def fill_in(found: Inspected, fills: Sequence[str]) -> Sanitised:
    """Return the text, or the document of which it is the view, with one fill for each mask."""
    if found.form is not None:
        rebuilt = found.form.rebuild(found.masks, fills)
        return _sanitised(rebuilt.text, rebuilt.spans, found, rebuilt.masks)
    pieces: list[str] = []
    spans: list[Span] = []
    read, written = 0, 0
    for mask, filling in zip(found.masks, fills, strict=True):
        kept = found.text[read : mask.start]
        start = written + len(kept)
        written = start + len(filling)
        pieces += (kept, filling)
        spans.append(Span(start, written, mask.type, mask.technique))
        read = mask.end
    pieces.append(found.text[read:])
    return _sanitised("".join(pieces), spans, found, found.masks)


def finds_only(found: Inspected) -> Sanitised:
    """Return the result of a dry run: what would be masked, in order of position, without a text."""
    masks = found.masks if found.form is None else found.form.in_source_order(found.masks)
    return _sanitised("", [Span(0, 0, mask.type, mask.technique) for mask in masks], found, masks)


def _sanitised(text: str, spans: Sequence[Span], found: Inspected, masks: Sequence[Mask]) -> Sanitised:
    """`masks`: those of `found`, in the order of `spans`."""
    return Sanitised(
        text,
        Spans.of(spans),
        found.masked_tokens,
        len(found.tokens),
        language=found.reading.language,
        origins=found.reading.origins(masks),
        suppressed=found.reading.suppressed,
    )


def fill_masks(
    found: Inspected,
    policy: MaskPolicy,
    fill: str,
    lists: AllowLists,
    *,
    surrogate_key: bytes | None = None,
    language: str | None = None,
) -> Sanitised:
    """Return the text with its masks filled by one of `FILLS`. `surrogate_key` and `language`: of the fill `surrogate`,
    as in `core.text.fill_surrogate`. Raises TaskFailed if a fill would restore what it replaces."""
    own = {"key": surrogate_key, "language": language} if fill == SURROGATE else {}
    return fill_in(found, import_module(FILLS[fill]).fill(found.text, found.masks, policy, lists, **own))


def sanitize(
    text: str,
    policy: MaskPolicy,
    fill: str,
    *,
    lists: AllowLists | None = None,
    recognised: Recognised = NOT_RECOGNISED,
    surrogate_key: bytes | None = None,
    language: str | None = None,
) -> Sanitised:
    """Mask and fill a text. Masking is deterministic; `surrogate` draws new values for every call without a key.

    Raises InvalidInput (unknown fill, and as `inspect`), RecogniserFailed, and TaskFailed as `fill_masks`.
    """
    check_fill(fill)
    lists = lists or AllowLists()
    found = inspect(text, policy, lists, recognised)
    return fill_masks(found, policy, fill, lists, surrogate_key=surrogate_key, language=language)
