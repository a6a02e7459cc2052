"""Values that a label names: `passport no. X1234567`, `Mitarbeiternummer: 00412-B`, `"employee_id": "E-20391"`.

A label is a name that is complete in itself (`MRN`, `Reisepass`), or a noun beside a word for "number" in any of the
eight languages (`customer no.`, `numéro de client`, `Kunden-ID`). Between a label and its value lie at most a few words
of a closed list (`is`, `lautet`) and punctuation, but no end of a sentence. A value contains a digit. The label is not
part of the find. A list of values after one label is found value by value.

Words match in any case, with or without their accents, and written together, with hyphens or with underscores.

Cost: linear in the text. `Anchors` tells whether a text can contain any label at all. Each token with a digit is
compared with the `LABEL_CHARS` characters before it.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

from core.text.recogniser import REGEX_TIMEOUT_S, Hit, Scan, Span, around, lower, matches_in, shared

_SHORT_CHARS = 3  # shorter parts occur within many words, and so are searched for at the start of words


class Anchors:
    """For each phrase, the longest part that every spelling of it has, a run without spaces and accents, if it is long
    or begins a word."""

    def __init__(self, phrases: Sequence[str]) -> None:
        parts = {part for phrase in phrases for part in _anchors(phrase)}
        self._long = sorted(part for part in parts if len(part) > _SHORT_CHARS)
        short = sorted(parts - set(self._long), key=len, reverse=True)
        self._all = [*self._long, *short]
        starts = rf"(?<!\p{{L}})(?:{'|'.join(map(regex.escape, short))})"
        self._short = regex.compile(starts) if short else None

    def may_occur(self, text: str) -> bool:
        """Return False only if `text` contains none of the phrases, in any case or spelling."""
        small = shared(text, str.lower)
        if any(map(small.__contains__, self._long)):
            return True
        return self._short is not None and self._short.search(small) is not None

    def reach(self, text: str, chars: int) -> list[Span]:
        """Return the parts of `text` from each such run to `chars` characters after it."""
        return around(lower(text), self._all, before=0, after=chars)


def _anchors(phrase: str) -> list[str]:
    """Return the longest run of a phrase. Where it is short and inside a word, the phrase in its spellings."""
    longest = max(_parts(phrase), key=len)
    inside = len(longest) <= _SHORT_CHARS and f" {longest}" not in f" {phrase.lower()}"
    return sorted(_spellings(phrase)) if inside else [longest]


def _parts(phrase: str) -> list[str]:
    """Return the runs that are spelt in one way: no space, and no letter that an accent or digraph replaces."""
    plain = "".join(char if _plain(char) else " " for char in phrase.lower())
    return plain.split() or [phrase.lower()]


def _plain(char: str) -> bool:
    return not char.isspace() and char not in "äöüß" and unicodedata.normalize("NFD", char) == char


LABEL_CHARS = 90
VALUE_CHARS = 60
LIST_CHARS = 500
LABELLED_SCORE = 0.8
FAR_SHARE = 0.75  # of the score, for a value that a word for "number" joins to a label earlier in the sentence


def phrases(text: str) -> tuple[str, ...]:
    """Return the phrases of `text`, which `|` separates."""
    return tuple(text.split("|"))


def longest_first(words: Iterable[str]) -> str:
    """Return what a pattern has for any of these words: of two that begin alike, the longer one matches."""
    return "|".join(sorted(map(regex.escape, words), key=len, reverse=True))


_JOIN = r"[\s_.\-]{0,2}"
# `"customer": {"id": ...` and the same in YAML
_NESTED = r"(?:[\"']\s{0,2}:\s{0,2}\{[^{}]{0,50}?(?<=[{\s,])[\"']|:[ ]?\n[ ]{1,8})"
_WITH = r"\s(?:with|mit|avec|con|met|com|o)\s(?:the\s|der\s|le\s|el\s|il\s|het\s)?"  # `Kunde mit der Nummer`
_ALSO = {"ß": "ss", "ü": "ue", "ö": "oe", "ä": "ae"}
_NUMBER_WORDS = phrases(
    "number|numbers|num|no|nos|nr|nbr|id|ids|code|identifier|reference|ref|kennung|nummer|nummern|numéro|numéros|"
    "identifiant|code|número|núm|identificador|código|numero|identificativo|codice|numer|numeru|numerze|identyfikator|"
    "numerem|numery|numerów|kod|n|nº|n°|n.º|n.°|n.o|№|#"
)
_FAR_NUMBER_WORDS = "number|no\\.|nr\\.?|nummer|numéro|número|numero|numer|numerze|n°|nº|n\\.º"
_FOR_WORDS = "for|für|pour|para|per|voor|dla"
_VERBS = "heeft|tiene|porte|porta|under|with"
_NOUNS_OF_NUMBERS = "(?:fax|tax|car|bus|job|lot|row|tel|mob)\\s"
_OF_WORDS = phrases("of|the|my|your|de|del|de la|de los|du|des|d'|d’|di|dell'|dell’|della|do|da|dos|van|von|der|l'|l’")
_BETWEEN_WORDS = phrases(
    "is|are|was|reads|the|my|your|his|her|our|their|new|old|current|valid|following|as|follows|under|with|holder|and|"
    "lautet|ist|war|die|der|das|den|mit|meine|meiner|ihre|ihrer|seine|neue|alte|folgende|est|le|la|mon|ma|votre|son|"
    "sous|porte|suivant|es|era|el|mi|su|con|è|il|mio|suo|con|het|mijn|uw|met|é|o|a|meu|minha|seu|sua|com|to|jest|o|"
    "był|moj|mój|twój|seria|serii|i|się"
)
_PUNCTUATION = r"[\s:;=()\[\]{}\"'“”„«»‘’|*<>/\\–—→\-]{0,8}+"
_UPPER_PREFIX = regex.compile(r"(?<![\w])[A-Z]{1,4} \Z")
_NUMBER_CAPITALS = frozenset(("NO", "NR", "N", "ID", "NUM", "REF", "CODE", "MRN", "KOD"))
_LAST_LETTERS = regex.compile(rf"(?r)(?:([^\W\d_]{{1,3}})|[#°º№])\.?{_PUNCTUATION}\Z")
_DIGITS = re.compile(r"[0-9]+")  # `re` finds them in a tenth of the time
_NO_LETTER = re.compile(r"[\W\d_]")
_HEAD = regex.compile(r"(?r)(?<![^\W_])(?<![@+])(?:[A-Za-z]{1,8}[-/._]){0,2}[A-Za-z]{0,8}\Z")
_HEAD_CHARS = 30
_TAIL = regex.compile(
    r"[A-Za-z0-9]*+(?:[-/._](?:[A-Za-z]{0,4}[0-9][A-Za-z0-9]*+|[A-Za-z]{1,3}(?![A-Za-z0-9])))*+(?![^\W_]|@|[.,:][0-9])"
)
_MORE_GROUPS = regex.compile(r"(?:[ \u00a0\u202f](?:\d{2,12}|[A-Z]{1,3}\d?)(?![\w]|[-/.:,]\d))+")
_DATE = regex.compile(
    r"(?:19|20)\d\d([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2(?:19|20)?\d\d|(?:19|20)\d\d|\d+[.,]\d\d"
)
_AMOUNT = regex.compile(
    r"[ \u00a0]?(?:[%€$£]|(?:EUR|USD|GBP|CHF|PLN|euros?|dollars?|pounds?|francs?|Franken|zł|złotych|reais|pesos)"
    r"(?!\w))",
    regex.IGNORECASE,
)
_LIST_GAP = regex.compile(r"\s*(?:[,;&|/]|(?:[,;]\s*)?(?<!\w)(?:and|or|und|oder|et|ou|y|e|ed|i|en|lub)(?!\w))\s*")


@dataclass(frozen=True)
class LabelledValue:
    """What a value looks like. `pattern` matches it whole, in any case.

    spaced: it may be written in groups with spaces between them. dates: it may look like a date, a year or an amount.
    prefixed: capital letters before the digits belong to it, although they may be a label as well (`NHC 774120`).
    """

    pattern: str
    spaced: bool = False
    dates: bool = False
    prefixed: bool = False


# A code of at least four letters and digits, with at least three digits.
CODE = LabelledValue(r"(?=(?:[^\W_][-/._]?){4,24}\Z)(?=(?:\D*\d){3})[A-Za-z0-9/._-]+")
# The same, or up to six groups of digits of which the first has at most four: `K 448 201 33`, `7 004 512`.
GROUPED_CODE = LabelledValue(
    rf"{CODE.pattern}|[A-Z]{{1,4}} {CODE.pattern}"
    r"|(?=(?:\D*\d){4})(?:[A-Z]{1,4}[ \u00a0-])?\d{1,4}(?:[ \u00a0\u202f]\d{2,6}){1,5}",
    spaced=True,
    prefixed=True,
)
# Letters and at least five digits, which no amount or count looks like: a label without a word for "number" suffices.
LETTERED_CODE = LabelledValue(
    r"(?=(?:\D*\d){5})(?!(?:ID|NO|NR)[ -])(?:[A-Z]{1,2}[ -]?|[A-Z]{3,5}-)\d{1,10}(?:[ -]\d{2,6}){0,4}",
    spaced=True,
    prefixed=True,
)


class Label:
    """Labels of one type: `names` are complete, `nouns` only beside a word for "number", before or after the noun."""

    def __init__(
        self,
        *,
        names: Sequence[str] = (),
        nouns: Sequence[str] = (),
        numbers: Sequence[str] = _NUMBER_WORDS,
        far: bool = True,
    ) -> None:
        """`numbers`: the words for "number" that a noun needs beside it. `far`: a word for "number" may join a value to
        a label earlier in the sentence. A name that ends in `nummer` may end in `nr` instead."""
        names = [*names, *(f"{name.removesuffix('ummer')}r" for name in names if name.endswith("nummer"))]
        number, of = _any(_NUMBER_WORDS), _any(_OF_WORDS)
        ways = [_any(names)] if names else []
        if nouns:
            noun = _any(nouns)
            beside = _any(numbers)
            ways += [
                rf"{noun}(?:{_JOIN}|{_NESTED}|{_WITH}){beside}",
                rf"{beside}\s{{0,2}}(?:{of}\s{{0,2}}){{0,2}}{noun}",
            ]
        owner = rf"\s(?:{of}|{_FOR_WORDS})\s(?:\p{{L}}{{1,4}}\.\s)?\p{{L}}{{2,20}}(?:\s\p{{Lu}}\p{{L}}{{1,20}})?"
        word = rf"(?:(?<![^\W_])(?:{number}|{_any(_BETWEEN_WORDS)})(?!\p{{L}})|[#№])"
        end = rf"(?:[\s_:,\-]{{0,3}}{word}|{owner}|\s?\([^()\n]{{1,20}}\)){{0,4}}{_PUNCTUATION}\Z"
        label = rf"(?r)(?<![^\W_])(?:{'|'.join(ways)})(?!\p{{L}})"
        self._ways = [(regex.compile(label + end, regex.IGNORECASE), 1.0)]
        # `carte vitale ... sous le numéro 123`: the same sentence, no other number between, an article before "number".
        article = rf"(?<![^\W_])(?!{_NOUNS_OF_NUMBERS})(?:\p{{L}}{{1,3}}|{_VERBS})"
        joined = rf"[^\d.!?;\n]{{1,40}}{article}\s(?:{_FAR_NUMBER_WORDS})(?!\p{{L}})"
        if far:
            self._ways.append((regex.compile(label + joined + end, regex.IGNORECASE), FAR_SHARE))
        self._anchors = Anchors([*names, *nouns])
        self._endings = {
            word[-3:]
            for phrase in (*names, *nouns, *numbers, *_NUMBER_WORDS, *_BETWEEN_WORDS)
            for word in _last_words(phrase)
        }

    def may_occur(self, text: str) -> bool:
        """Return False only if `text` contains no label."""
        return self._anchors.may_occur(text)

    def reach(self, text: str) -> list[Span]:
        """Return the parts of `text` in which a value of a label may lie."""
        return self._anchors.reach(text, LABEL_CHARS + VALUE_CHARS)

    def score(self, text: str, start: int) -> float:
        """Return how surely a label names the value at `start`, 0 if none does."""
        return self.stated(text, start) if self.may_follow(_letters_before(text, start)) else 0.0

    def stated(self, text: str, start: int) -> float:
        """The same, where `may_follow` is true."""
        for pattern, score in self._ways:
            if pattern.search(text, max(0, start - LABEL_CHARS), start, timeout=REGEX_TIMEOUT_S):
                return score
        return 0.0

    def may_follow(self, letters: str | None) -> bool:
        """Return False only if no label has these letters at its end, as `_letters_before` gives them."""
        if letters is None:
            return False
        return not letters or letters in self._endings or letters[-2:] in ("id", "no", "nr") or not letters.isascii()


def _letters_before(text: str, start: int) -> str | None:
    """Return the last letters before `start`, in small letters; empty for a sign such as `#`, None for anything else
    that ends no label."""
    last = _LAST_LETTERS.search(text, max(0, start - _HEAD_CHARS), start)
    return None if last is None else (last.group(1) or "").lower()


def _last_words(phrase: str) -> set[str]:
    """Return the spellings of the last word of a phrase, and of its last letters after a full stop (`R.G.`)."""
    word = phrase.split(" ")[-1]
    return _spellings(word) | _spellings(_NO_LETTER.split(word.rstrip("."))[-1])


def _spellings(word: str) -> set[str]:
    """Return the small letters of a word with its accents, without them, and with German digraphs."""
    small = "".join(char for char in word.lower() if char.isalpha())
    bare = "".join(unicodedata.normalize("NFD", char)[0] for char in small)
    return {small, bare, "".join(_ALSO.get(char, char) for char in small)}


def _written(phrase: str) -> str:
    """Return the pattern of a phrase: any accents, and any joint between its words."""
    parts = []
    for char in phrase:
        base = unicodedata.normalize("NFD", char)[0]
        if char == " ":
            parts.append(_JOIN)
        elif not char.isalpha() or (char == base and char not in _ALSO):
            parts.append(regex.escape(char))
        else:
            others = [char, _ALSO[char]] if char in _ALSO else [char]
            parts.append(f"(?:{'|'.join(others)}|{base}\\p{{M}}?)")
    return "".join(parts) + (r"\.?" if len(regex.split(r"[ -]", phrase)[-1]) <= 5 or phrase.endswith("nr") else "")


def _any(words: Sequence[str]) -> str:
    return f"(?:{'|'.join(_written(word) for word in sorted(set(words), key=len, reverse=True))})"


def labelled_scan(label: Label, value: LabelledValue = CODE, *, score: float = LABELLED_SCORE) -> Scan:
    """Return a scan for values that stand after a label."""
    shape = regex.compile(value.pattern, regex.IGNORECASE)

    def scan(text: str) -> Iterator[Hit]:
        if not label.may_occur(text):
            return
        last, list_start = Hit(0, 0, 0.0), 0
        for code in shared(text, codes):
            for start in code.starts(value):
                if start < last.end:
                    continue
                first = start == code.start
                in_reach = last.end and first and start - list_start < LIST_CHARS
                listed = in_reach and _LIST_GAP.fullmatch(text, last.end, start)
                if not listed and not label.may_follow(code.letters if first else _letters_before(text, start)):
                    continue  # most tokens, and cheaper to see than their form
                end = _end(text, start, code.end, shape, value)
                share = 0.0 if end is None else last.score / score if listed else label.stated(text, start)
                if end and share and (not listed or abs((end - start) - (last.end - last.start)) <= 1):
                    list_start = list_start if listed else start
                    last = Hit(start, end, score * share)
                    yield last
                    break

    return scan


def labelled_forms(label: Label, form: regex.Pattern[str], sign: re.Pattern[str]) -> Scan:
    """Return a scan for the matches of `form` that stand after a label. Every match holds a match of `sign`."""

    def scan(text: str) -> Iterator[Hit]:
        if sign.search(text) is None or not label.may_occur(text):
            return
        for match in matches_in(form, text, label.reach(text)):
            share = label.score(text, match.start())
            if share and not _AMOUNT.match(text, match.end()):
                yield Hit(match.start(), match.end(), LABELLED_SCORE * share)

    return scan


class Code(NamedTuple):
    """A code of a text: letters and digits with single separators, and at least one digit. `capitals`: capital letters
    before it and where they start. `letters`: as `_letters_before` gives them."""

    start: int
    end: int
    capitals: tuple[int, str] | None
    letters: str | None

    def starts(self, value: LabelledValue) -> Sequence[int]:
        """Return where the value may start: at the code, or at capital letters before it (`AB 1234567`)."""
        if self.capitals is None or not value.spaced:
            return (self.start,)
        at, letters = self.capitals
        first = value.prefixed and letters not in _NUMBER_CAPITALS
        return (at, self.start) if first else (self.start, at)


def codes(text: str) -> list[Code]:
    """Return the codes of a text, in order."""
    found = []
    done = 0
    for digits in _DIGITS.finditer(text):
        at = digits.start()
        if at < done:
            continue
        head, tail = _HEAD.search(text, max(0, at - _HEAD_CHARS), at), _TAIL.match(text, at)
        if head and tail and head.start() >= done:
            start, done = head.start(), tail.end()
            prefix = _UPPER_PREFIX.search(text, max(0, start - 6), start)
            capitals = prefix and (prefix.start(), prefix.group().strip())
            found.append(Code(start, done, capitals, _letters_before(text, start)))
    return found


def _end(text: str, start: int, end: int, shape: regex.Pattern[str], value: LabelledValue) -> int | None:
    """Return the end of the longest value of the right shape, None if there is none."""
    ends = [end]
    if value.spaced and (more := _MORE_GROUPS.match(text, end)):
        ends = [*reversed([place for place in range(end + 1, more.end()) if text[place].isspace()]), end]
        ends.insert(0, more.end())
    for each in ends:
        if (
            shape.fullmatch(text, start, each)
            and (value.dates or not _DATE.fullmatch(text, start, each))
            and not _AMOUNT.match(text, each)
        ):
            return each
    return None
