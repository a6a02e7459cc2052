"""The interface of an entity recogniser, and a regular-expression recogniser that fails closed.

A recogniser has a name, a scan and context words. `hits` returns every hit with its score after context. It either
examines the whole text or raises. Presidio's own loops skip a pattern whose match times out, and its engine ignores
a recogniser that raises. Both would treat unexamined text as clean, so this project has its own loops. `around` and
`matches_in` limit slow patterns to the parts of a text around literals, which are little of an ordinary text.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple, TypeVar

import regex  # type: ignore[import-untyped]

REGEX_TIMEOUT_S = 10.0  # for each pattern and text; a normal pattern needs 0.05 s per MB
CONTEXT_BEFORE_CHARS = 60
CONTEXT_AFTER_CHARS = 25
CONTEXT_BONUS = 0.35
CONTEXT_SCORE_MIN = 0.4
COPY_CHARS_MIN = 6
BOUNDARY = "\ufdd0"  # no character of a text: what is beyond it is no context

_WORD = re.compile(r"[^\W_]+")

Span = tuple[int, int]
_T = TypeVar("_T")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


class Window(str):
    """A text that many scans read, with what they share of it (`shared`)."""

    def __init__(self, text: str) -> None:  # noqa: ARG002 - `str` has read it
        self.made: dict[Callable[[str], Any], Any] = {}


def shared(text: str, make: Callable[[str], _T]) -> _T:
    """Return `make(text)`, which is made once for a `Window`."""
    made = text.made if isinstance(text, Window) else {}
    if make not in made:
        made[make] = make(text)
    found: _T = made[make]
    return found


class Hit(NamedTuple):
    start: int
    end: int
    score: float


class Hits(NamedTuple):
    """The hits of one recogniser: those that reach the threshold, and the others."""

    passed: Sequence[Hit]
    weak: Sequence[Hit]

    def masked(self, text: str) -> list[Hit]:
        """Return the hits to mask in `text`, in order of position.

        If a string passes once, all its occurrences pass: an occurrence without a context word would otherwise reveal
        what the first mask hides.
        """
        known = {text[hit.start : hit.end]: hit.score for hit in self.passed}
        repeats = [
            Hit(start, end, known[string])
            for start, end, _ in self.weak
            if known and (string := text[start:end]) in known
        ]
        return sorted({*self.passed, *repeats})

    def suppressed(self, text: str) -> list[Hit]:
        """Return the hits that `masked` does not return."""
        known = {text[hit.start : hit.end] for hit in self.passed}
        return [hit for hit in self.weak if text[hit.start : hit.end] not in known]


class Pattern(NamedTuple):
    regex: regex.Pattern[str]
    score: float


def matches(pattern: regex.Pattern[str], text: str) -> Iterator[regex.Match[str]]:
    """Yield non-overlapping matches. Raises TimeoutError after `REGEX_TIMEOUT_S`."""
    yield from pattern.finditer(text, timeout=REGEX_TIMEOUT_S)


Scan = Callable[[str], Iterator[Hit]]


@dataclass(frozen=True)
class Recogniser:
    """`digits_min`, `sign`: a text with fewer decimal digits, or without a match of the sign, cannot contain a hit, so
    the scan is skipped. `copies`: where a string of at least `COPY_CHARS_MIN` characters passes, all its occurrences in
    the whole text do (`copies_in`). `name`: what an explanation calls it, by default the entity in lower case."""

    entity: str
    scan: Scan
    context: regex.Pattern[str] | None = None
    digits_min: int = 0
    copies: bool = False
    name: str = ""
    sign: re.Pattern[str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.entity.lower())

    def hits(self, text: str, *, threshold: float, digits: int) -> Hits:
        """Return all hits with their scores after context. `digits`: the number of decimal digits of `text`.

        A hit without a letter or digit identifies nobody and is dropped (`::` is a valid IPv6 address).
        """
        passed: list[Hit] = []
        weak: list[Hit] = []
        if digits >= self.digits_min and (self.sign is None or self.sign.search(text)):
            for hit in self.scan(text):
                if _LETTER_OR_DIGIT.search(text, hit.start, hit.end) is None:
                    continue
                if hit.score < threshold:
                    hit = self._with_context(text, hit)
                (passed if hit.score >= threshold else weak).append(hit)
        return Hits(passed, weak)

    def lacks_context(self, text: str, hit: Hit, *, threshold: float) -> bool:
        """Return whether a context word nearby would have raised `hit`, which is weak, to the threshold."""
        return self.context is not None and not self._in_context(text, hit) and _raised(hit.score) >= threshold

    def _with_context(self, text: str, hit: Hit) -> Hit:
        return hit._replace(score=_raised(hit.score)) if self._in_context(text, hit) else hit

    def _in_context(self, text: str, hit: Hit) -> bool:
        return self.context is not None and stands_near(self.context, text, hit.start, hit.end)

    def copies_in(self, text: str, hits: Sequence[Hit]) -> list[Hit]:
        """Return every occurrence of the strings of `hits` as whole words, if this recogniser hides copies.

        A scan by labels has no weak hits, so that an occurrence without a label would reveal what the first mask hides.
        """
        if not self.copies:
            return []
        scores = {text[hit.start : hit.end]: hit.score for hit in hits if hit.end - hit.start >= COPY_CHARS_MIN}
        return [Hit(start, end, scores[text[start:end]]) for start, end in occurrences(text, scores)]


class Lexicon:
    """Strings that are found as whole words in a text, the longest one of a place. Time: linear in the text."""

    def __init__(self, strings: Collection[str]) -> None:
        self._strings = strings
        lengths: dict[str, set[int]] = {}
        for string in strings:
            if word := _WORD.match(string):
                lengths.setdefault(word.group(), set()).add(len(string))
        self._longest_first = {word: sorted(own, reverse=True) for word, own in lengths.items()}

    def places(self, text: str) -> Iterator[Span]:
        for word in _WORD.finditer(text) if self._longest_first else ():
            for length in self._longest_first.get(word.group(), ()):
                end = word.start() + length
                is_whole = end <= len(text) and not text[end : end + 1].isalnum()  # a slice ends with the text
                if is_whole and text[word.start() : end] in self._strings:
                    yield word.start(), end
                    break


def occurrences(text: str, strings: Collection[str]) -> Iterator[Span]:
    """Yield where the strings stand as whole words, the longest one of a place."""
    yield from Lexicon(strings).places(text)


def stands_near(context: regex.Pattern[str], text: str, start: int, end: int) -> bool:
    """Whether a context word stands near `text[start:end]`, with no `BOUNDARY` between them."""
    before = text[max(0, start - CONTEXT_BEFORE_CHARS) : start].rpartition(BOUNDARY)[2]
    after = text[end : end + CONTEXT_AFTER_CHARS].partition(BOUNDARY)[0]
    return context.search(before + "\n" + after, timeout=REGEX_TIMEOUT_S) is not None


def _raised(score: float) -> float:
    return min(1.0, max(score + CONTEXT_BONUS, CONTEXT_SCORE_MIN))


def context_of(words: Sequence[str]) -> regex.Pattern[str] | None:
    """Return a pattern for any of the words: whole words in any case, with an optional plural `s`."""
    if not words:
        return None
    body = "|".join(regex.escape(word.strip()) for word in sorted(words, key=len, reverse=True))
    return regex.compile(rf"(?<!\w)(?:{body})s?(?!\w)", regex.IGNORECASE)


def pattern_scan(
    patterns: Sequence[Pattern],
    validate: Callable[[str], bool | None] | None = None,
    invalidate: Callable[[str], bool | None] | None = None,
    *,
    valid_score: float = 1.0,
) -> Scan:
    """Return a scan with Presidio's scoring: a valid checksum gives `valid_score`, an invalid one drops the match, and
    without a verdict the pattern's own score stays."""

    def scan(text: str) -> Iterator[Hit]:
        for pattern, base in patterns:
            for match in matches(pattern, text):
                found = match.group()
                if not found:
                    continue
                score = base
                verdict = validate(found) if validate else None
                if verdict is False or (invalidate and invalidate(found)):
                    continue
                if verdict:
                    score = max(base, valid_score)
                yield Hit(match.start(), match.end(), score)

    return scan


def lower(text: str) -> str:
    """Return `text` in lower case, with the same number of characters."""
    return shared(text, _lower)


def _lower(text: str) -> str:
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)


def around(text: str, literals: Iterable[str], *, before: int, after: int) -> list[Span]:
    """Return disjoint parts of `text`, in order: every literal with `before` and `after` characters beside it.

    Time: linear in the text for each literal.
    """
    found = []
    for literal in literals:
        at = text.find(literal)
        while at >= 0:
            found.append((max(0, at - before), min(len(text), at + len(literal) + after)))
            at = text.find(literal, at + 1)
    return merged(found)


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return the union of `spans` as disjoint ones, in order."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def matches_in(pattern: regex.Pattern[str], text: str, spans: Iterable[Span]) -> Iterator[regex.Match[str]]:
    """Yield the matches of `pattern` inside `spans`. A match sees the characters before its span, and none after it.

    Raises TimeoutError.
    """
    for start, end in spans:
        yield from pattern.finditer(text, start, end, timeout=REGEX_TIMEOUT_S)


_TEXT_OF_KEY = re.compile(r"\{\{(\w+)\}\}")


def texts_of(module: str) -> dict[str, Any]:
    """Return what the file NAME.toml beside the module NAME has: words, patterns and tables of them, by their keys.

    The lines of a text are one string. In it, `{{key}}` stands for the text of an earlier key.
    """
    package, _, name = module.rpartition(".")
    found: dict[str, Any] = {}
    for key, value in tomllib.loads(resources.files(package).joinpath(f"{name}.toml").read_text("utf-8")).items():
        found[key] = _filled(value, found)
    return found


def _filled(value: Any, found: dict[str, Any]) -> Any:
    if isinstance(value, str):
        return _TEXT_OF_KEY.sub(lambda match: str(found[match[1]]), value.replace("\n", ""))
    if isinstance(value, list):
        return [_filled(each, found) for each in value]
    return {key: _filled(each, found) for key, each in value.items()} if isinstance(value, dict) else value
