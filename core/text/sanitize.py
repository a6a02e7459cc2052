"""Mask a text, then fill the masked regions: `sanitize`, and for the fill `metric_dp` `replace_words`.

`sanitize` has no guarantee (no differential privacy; kept words have no protection). The property is: the characters of
a masked region are not copied to the output, and the result object contains no original string. `inspect` and `fill_in`
are its two halves, for fills of many texts at once (`core.text.model_fills`).

`metric_dp`: every masked word becomes a public word, under metric DP (`core.mechanisms.words`). Guarantee: eps per unit
of distance for one masked word, and pure DP at `pricing.worst_case_nano` for replacing it by any other, in one of two
senses.

* The technique `all`: the text is its words and numbers, joined by single spaces; punctuation, letter case and line
  breaks are removed before anything is drawn. Neighbours are texts of as many words that differ in one. Only the number
  of words is public, and no recogniser runs.
* Any other technique: only what is masked is protected, **given the mask pattern and the kept text**, which are public:
  which words are kept, where masked regions lie and how many words each of them has. A neighbour has another masked
  word and the same pattern. The pattern itself depends on the words (a name is masked because it is a name), and
  nothing hides that.

Inside a region everything except words is removed, and the drawn words are joined by spaces. They are in lower case,
whatever the original was. A region's span has the type `WORD` and the techniques of the request, not the technique that
found it. Invisible characters at the edges of a region belong to it. `core.text.segment` removes them or not by the
characters beside them, one of which is masked, so that kept ones would depend on it. For the same reason the numbers of
words of a result count the words of the regions and those of the kept text apart: where both meet, a masked character
decides whether they are one word of the text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import islice, zip_longest

from core.mechanisms.words.replacement import WordMechanism
from core.text.formats.form import Form, FormRegions
from core.text.mask_entity import masks_of, searched
from core.text.mask_words import AllowLists
from core.text.masks import NOT_RECOGNISED, Recognised, findings, regions_of, suppressed_finds
from core.text.policy import (
    FILLS,
    SURROGATE,
    WORD,
    Mask,
    MaskPolicy,
    Origin,
    Origins,
    Sanitised,
    Span,
    Spans,
    SuppressedFinds,
    check_fill,
    check_text,
)
from core.text.segment import INVISIBLE, Regions, SentText, Token, tokenize, visible


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


_INVISIBLE = re.compile(INVISIBLE)


def inspect_words(
    text: str, policy: MaskPolicy, lists: AllowLists, recognised: Recognised = NOT_RECOGNISED
) -> Inspected:
    """Return the regions of `text` to replace: as `inspect`, which documents the errors. With the
    technique `all` the result is the bare words, as one region."""
    technique = "+".join(policy.techniques)
    if policy.whole:
        check_text(text)
        text = visible(text)
        bare = " ".join(text[start:end] for start, end in tokenize(text))
        return Inspected(bare, tokenize(bare), [Mask(0, len(bare), WORD, technique)] if bare else [])
    found = inspect(text, policy, lists, recognised)
    masks = [replace(mask, type=WORD, technique=technique) for mask in found.masks]
    return replace(found, masks=_with_edges(found.text, masks))


def replace_words(found: Sequence[Inspected], epsilon_nano: Sequence[int], words: WordMechanism) -> list[Sanitised]:
    """Return each text with a draw for each of its masked words. All words of all texts are drawn in one call.

    Units: epsilon in nano, per unit of distance, one for each text. Raises: as `WordMechanism.release`.
    """
    originals = [words_of(each) for each in found]
    counts = [sum(map(len, regions)) for regions in originals]
    drawn = iter(
        words.release(
            [word for regions in originals for region in regions for word in region],
            [epsilon for epsilon, count in zip(epsilon_nano, counts, strict=True) for _ in range(count)],
        )
    )
    return [put(each, drawn) for each in found]


def words_of(found: Inspected) -> list[list[str]]:
    """Return the words of each masked region, each of which has a draw of its own."""
    return [_words(found.text[mask.start : mask.end]) for mask in found.masks]


def put(found: Inspected, drawn: Iterator[str]) -> Sanitised:
    """Return the text with the next of the drawn words in place of those of `words_of`."""
    counts = [len(region) for region in words_of(found)]
    ends = [0, *(mask.end for mask in found.masks)]
    starts = [*(mask.start for mask in found.masks), len(found.text)]
    kept = sum(len(tokenize(found.text[end:start])) for end, start in zip(ends, starts, strict=True))
    filled = fill_in(found, [_taken(drawn, count) for count in counts])
    return replace(filled, masked_tokens=sum(counts), tokens=sum(counts) + kept)


def _with_edges(text: str, masks: Sequence[Mask]) -> list[Mask]:
    """Return the masks with the invisible characters beside them."""
    if text.isascii():
        return list(masks)
    widened: list[Mask] = []
    for mask, following in zip_longest(masks, masks[1:]):
        start, end = mask.start, mask.end
        first = widened[-1].end if widened else 0
        last = following.start if following else len(text)
        while start > first and _INVISIBLE.match(text, start - 1):
            start -= 1
        while end < last and _INVISIBLE.match(text, end):
            end += 1
        widened.append(replace(mask, start=start, end=end))
    return widened


def _words(region: str) -> list[str]:
    """Return the words of a masked region. A region without words counts as one word, so that it is replaced."""
    return [region[start:end] for start, end in tokenize(region)] or [region]


def _taken(drawn: Iterator[str], count: int) -> str:
    return " ".join(islice(drawn, count))
