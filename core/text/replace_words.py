"""Fill `metric_dp`: every masked word becomes a public word, under metric DP (`core.mechanisms.words`).

Guarantee: eps per unit of distance for one masked word, and pure DP at `pricing.worst_case_nano` for replacing it by
any other, in one of two senses.

* The technique `all`: the text is its words and numbers, joined by single spaces; punctuation, letter case and line
  breaks are removed before anything is drawn. Neighbours are texts of as many words that differ in one. Only the number
  of words is public, and no recogniser runs.
* Any other technique: only what is masked is protected, **given the mask pattern and the kept text**, which are public:
  which words are kept, where masked regions lie and how many words each of them has. A neighbour has another masked
  word and the same pattern. The pattern itself depends on the words (a name is masked because it is a name), and
  nothing hides that.

Inside a region everything except words is removed, and the drawn words are joined by spaces. They are in lower case,
whatever the original was. A region's span has the type `WORD` and the techniques of the request, not the technique that
found it.

Invisible characters at the edges of a region belong to it. `core.text.visible` removes them or not by the characters
beside them, one of which is masked, so that kept ones would depend on it. For the same reason the numbers of words of a
result count the words of the regions and those of the kept text apart: where both meet, a masked character decides
whether they are one word of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, zip_longest

from core.mechanisms.words.replacement import WordMechanism
from core.text.lists import AllowLists
from core.text.policy import WORD, Mask, MaskPolicy, Sanitised, check_text
from core.text.recognised import NOT_RECOGNISED, Recognised
from core.text.sanitize import Inspected, fill_in, inspect
from core.text.tokens import tokenize
from core.text.visible import INVISIBLE, visible

_INVISIBLE = re.compile(INVISIBLE)


def inspect_words(
    text: str, policy: MaskPolicy, lists: AllowLists, recognised: Recognised = NOT_RECOGNISED
) -> Inspected:
    """Return the regions of `text` to replace: as `core.text.sanitize.inspect`, which documents the errors. With the
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
