"""Finds up to a hundred thousand terms in one pass over a text (Aho and Corasick 1975).

Occurrences may overlap. Of those that end at one character, the longest is found, which covers the others. So that time
stays linear in the text, at most `NESTED_TERMS_MAX` terms may end with one another: this is the largest number of terms
that end at one character.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import ahocorasick

from core.errors import InvalidInput
from core.text.own_recognisers.folding import Folded, continues, fold, is_mark, is_word_character

NESTED_TERMS_MAX = 16
_BETWEEN = "\0"  # terms are folded together, which is several times as fast


def folded_terms(terms: Sequence[str], *, field: str, case_sensitive: bool) -> set[str]:
    """Return the forms of `terms`, as `TermFinder` takes them.

    Raises InvalidInput for a term without a letter or digit, one with a zero character, one that begins with a
    combining mark, and more than `NESTED_TERMS_MAX` terms that end with one another.
    """
    forms = set()
    for index, term in enumerate(terms):
        if _BETWEEN in term:
            raise InvalidInput("A term contains no zero character.", field=f"{field}.{index}")
    together = fold(_BETWEEN.join(terms), case_sensitive=case_sensitive).text.split(_BETWEEN) if terms else []
    for index, term in enumerate(together):
        form = term.strip(" ")
        if not any(map(str.isalnum, form)):
            raise InvalidInput("A term contains a letter or a digit.", field=f"{field}.{index}")
        if is_mark(form[0]):
            raise InvalidInput("A term does not begin with a combining mark.", field=f"{field}.{index}")
        forms.add(form)
    if _nested(forms) > NESTED_TERMS_MAX:
        raise InvalidInput(f"At most {NESTED_TERMS_MAX} terms end with one another.", field=field)
    return forms


def _nested(forms: Collection[str]) -> int:
    """Return the largest number of terms that are all ends of one of them."""
    most = 0
    ends: list[str] = []
    for backwards in sorted(form[::-1] for form in forms):
        while ends and not backwards.startswith(ends[-1]):
            ends.pop()
        ends.append(backwards)
        most = max(most, len(ends))
    return most


class TermFinder:
    """Finds `forms`, the results of `folded_terms`."""

    def __init__(self, forms: Collection[str], *, whole_words: bool) -> None:
        self._whole_words = whole_words
        self._automaton = None
        if forms:
            self._automaton = ahocorasick.Automaton(ahocorasick.STORE_LENGTH)
            for form in forms:
                self._automaton.add_word(form)
            self._automaton.make_automaton()

    def spans(self, folded: Folded) -> Iterator[tuple[int, int]]:
        """Yield the occurrences as characters of the original, in the order of their ends. An occurrence ends with a
        whole character: `cafe` is not found in `café`, whether the accent is a character of its own or not."""
        if self._automaton is None:
            return
        text, whole_words = folded.text, self._whole_words
        done = -1
        for last, length in self._automaton.iter(text):  # of the same end, the longest comes first
            if last == done:
                continue
            after = text[last + 1 : last + 2]
            if after and (continues(after) or (whole_words and is_word_character(after))):
                done = last
                continue
            start = last - length + 1
            if whole_words and start and is_word_character(text[start - 1]):
                continue
            done = last
            yield folded.original(start, last + 1)
