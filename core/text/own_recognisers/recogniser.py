"""A definition that is ready to search, and what such recognisers find in a text, as a whole or in its windows.

Each find of a pattern has the recogniser's score. One below the threshold of its type gets a higher score if a context
word is near, as those of the shipped recognisers do (`core.text.recogniser`). A term of the deny list has the score 1.
An allow list suppresses a find of a pattern or of the tagger only if the find lies completely within one occurrence of
a term. A find that reaches beyond the term is masked as a whole, and a deny list is never suppressed. `try_out` says
what a recogniser that is not stored yet would find, and why it would or would not be masked.

`TermFinder` finds up to a hundred thousand terms in one pass over a text (Aho and Corasick 1975). Terms are compared in
a form of the text in which two spellings are equal, with the place of each character in the original:

* Letter case is folded (Unicode case folding), unless the case matters.
* Characters are decomposed, and combining marks are in canonical order (NFD), so that NFC and NFD are equal.
* A run of white space is one space, so that a term matches across a line break.
* Invisible characters (zero width, soft hyphen, direction marks) are left out, so that they do not hide a term.

Occurrences may overlap. Of those that end at one character, the longest is found, which covers the others. So that time
stays linear in the text (up to the logarithm of the length of a run of combining marks), at most `NESTED_TERMS_MAX`
terms may end with one another: this is the largest number of terms that end at one character.
"""

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate, groupby

import ahocorasick
import numpy as np
import numpy.typing as npt
import regex  # type: ignore[import-untyped]

from core.errors import InvalidInput, RecogniserBroken, RecogniserFailed
from core.text.own_recognisers.definition import Definition, RecogniserLimits, check_shape
from core.text.own_recognisers.patterns import EncodedText, PatternFinder, SearchBudget
from core.text.policy import Mask, MaskPolicy
from core.text.recogniser import CONTEXT_AFTER_CHARS, CONTEXT_BEFORE_CHARS, CONTEXT_BONUS, CONTEXT_SCORE_MIN, Hit, Hits
from core.text.segment import hidden, visible
from core.text.windows import Extent, extents, windows

_INVISIBLE = frozenset(map(chr, (0xAD, *range(0x200B, 0x2010), *range(0x2060, 0x2065), 0xFEFF)))
_ASCII_SPACES = {code: " " for code in range(128) if chr(code).isspace()}
_MARKS = regex.compile(r"\p{M}{2,}")
_SPACE = ord(" ")


@dataclass(frozen=True)
class Folded:
    """`text` is the form; its character i comes from the character `places[i]` of the original, or from character i if
    `places` is None."""

    text: str = field(repr=False)
    places: npt.NDArray[np.int64] | None = field(repr=False)

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the characters of the original that `start:end` of the form comes from; `start < end`. A character
        that the form shows in part belongs to them."""
        if self.places is None:
            return start, end
        return int(self.places[start]), int(self.places[end - 1]) + 1


def fold(text: str, *, case_sensitive: bool) -> Folded:
    """Return the form of `text`."""
    if text.isascii():
        plain = (text if case_sensitive else text.lower()).translate(_ASCII_SPACES)
        if "  " not in plain:
            return Folded(plain, None)
        return _single_spaced(plain, np.arange(len(plain)))
    codes, numbers = np.unique(_codes(text), return_inverse=True)
    forms = {int(code): _form(chr(code), case_sensitive) for code in codes}
    lengths = np.array([len(form) for form in forms.values()])[numbers]
    ordered = _MARKS.sub(lambda run: _ordered(run.group()), text.translate(forms))
    return _single_spaced(ordered, np.repeat(np.arange(len(text)), lengths))


def is_word_character(character: str) -> bool:
    """Whether it is a letter, mark, digit or underscore."""
    return character.isalnum() or character == "_" or (not character.isascii() and is_mark(character))


def is_mark(character: str) -> bool:
    """Whether it is a combining mark."""
    return unicodedata.category(character)[0] == "M"


def continues(character: str) -> bool:
    """Whether it belongs to the character before it: a combining mark, or a vowel or final consonant of Hangul."""
    return not character.isascii() and (is_mark(character) or "\u1160" <= character <= "\u11ff")


@lru_cache(maxsize=8192)
def _form(character: str, case_sensitive: bool) -> str:
    if character in _INVISIBLE:
        return ""
    if character.isspace():
        return " "
    form = unicodedata.normalize("NFD", character)
    return form if case_sensitive else unicodedata.normalize("NFD", form.casefold())


def _ordered(marks: str) -> str:
    """Put combining marks into canonical order. `unicodedata.normalize` takes quadratic time for a long run."""
    runs = groupby(marks, key=lambda mark: unicodedata.combining(mark) > 0)
    return "".join("".join(sorted(run, key=unicodedata.combining) if moves else run) for moves, run in runs)


def _codes(text: str) -> npt.NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def _single_spaced(text: str, places: npt.NDArray[np.int64]) -> Folded:
    codes = _codes(text)
    keep = np.ones(len(codes), dtype=bool)
    keep[1:] = (codes[1:] != _SPACE) | (codes[:-1] != _SPACE)
    return Folded(codes[keep].tobytes().decode("utf-32-le", "surrogatepass"), places[keep])


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


INSTRUCTIONS_MAX = 200_000
"""Of the compiled patterns of one recogniser. They take half a second to compile, in which a worker does nothing
else."""

Range = tuple[int, int]


class Readings:
    """The forms of one window that finders read. Each is made once, for all recognisers."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def encoded(self) -> EncodedText:
        return EncodedText(self.text)

    @cached_property
    def caseless(self) -> Folded:
        return fold(self.text, case_sensitive=False)

    @cached_property
    def cased(self) -> Folded:
        return fold(self.text, case_sensitive=True)


@dataclass(frozen=True)
class PatternFind:
    """A find of the pattern with this number. `score` is that after context; `context`: whether a context word is near,
    None if the recogniser has none."""

    hit: Hit
    pattern: int
    context: bool | None


class OwnRecogniser:
    """Searches texts by a definition. For each window, the time is bounded."""

    def __init__(self, definition: Definition) -> None:
        """Raises InvalidInput for a pattern or a term that cannot be used."""
        deny, allow, context = _terms(definition)
        self.entity = definition.entity
        self._score = definition.score
        self._cased = definition.case_sensitive
        self._has_context = bool(definition.context)
        self._deny = TermFinder(deny, whole_words=definition.whole_words)
        self._allow = TermFinder(allow, whole_words=definition.whole_words)
        self._context = TermFinder(context, whole_words=True)
        self._patterns = _patterns(definition)

    def denied(self, window: Readings) -> list[Range]:
        """Return what the deny list covers, in order. Occurrences that overlap are one range."""
        ranges: list[Range] = []
        for start, end in sorted(self._deny.spans(self._folded(window))):
            if ranges and start < ranges[-1][1]:
                ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
            else:
                ranges.append((start, end))
        return ranges

    def allowed(self, window: Readings) -> list[Range]:
        """Return the occurrences of the allow list."""
        return list(self._allow.spans(self._folded(window)))

    def found(
        self, window: Readings, *, threshold: float, budget: SearchBudget, between: Callable[[], object] = bool
    ) -> Iterator[PatternFind]:
        """Yield the finds of the patterns, also those below the threshold. A find without a letter or digit identifies
        nobody and is left out. Calls `between` before each pattern. Raises InvalidInput once `budget`, that of the
        window, is used up."""
        budget.next_recogniser()
        context = sorted(self._context.spans(window.caseless)) if self._patterns else []
        for number, pattern in enumerate(self._patterns):
            between()
            for start, end in pattern.spans(window.encoded, budget):
                if not any(map(str.isalnum, window.text[start:end])):
                    continue
                near = _near(context, start, end) if self._has_context else None
                score = self._score
                if near and score < threshold:
                    score = min(1.0, max(score + CONTEXT_BONUS, CONTEXT_SCORE_MIN))
                yield PatternFind(Hit(start, end, score), number, near)

    def _folded(self, window: Readings) -> Folded:
        return window.cased if self._cased else window.caseless


def _terms(definition: Definition) -> tuple[set[str], set[str], set[str]]:
    """Return the forms of the deny list, the allow list and the context words."""
    cased = definition.case_sensitive
    deny = folded_terms(definition.deny, field="deny", case_sensitive=cased)
    allow = folded_terms(definition.allow, field="allow", case_sensitive=cased)
    if deny & allow:
        raise InvalidInput("A term is on the deny list and on the allow list.", field="allow")
    return deny, allow, folded_terms(definition.context, field="context", case_sensitive=False)


def _patterns(definition: Definition) -> list[PatternFinder]:
    """Compile the patterns. Raises InvalidInput, also for one with which they take more than `INSTRUCTIONS_MAX`."""
    found: list[PatternFinder] = []
    for index, pattern in enumerate(definition.patterns):
        finder = PatternFinder(
            pattern,
            field=f"patterns.{index}",
            case_sensitive=definition.case_sensitive,
            whole_words=definition.whole_words,
            program_bytes_max=definition.program_bytes_max,
        )
        found.append(finder)
        if sum(each.instructions for each in found) > INSTRUCTIONS_MAX:
            raise InvalidInput(
                f"Up to this pattern, the patterns of the recogniser compile to more than {INSTRUCTIONS_MAX:,} "
                "instructions. A class of Unicode that is repeated by numbers takes most of them: \\pL+ is far smaller "
                "than \\pL{1,30}.",
                field=f"patterns.{index}",
            )
    return found


def _near(context: Sequence[Range], start: int, end: int) -> bool:
    """Whether a context word lies completely in the characters beside a find. `context` is sorted."""
    first = bisect_left(context, (start - CONTEXT_BEFORE_CHARS, 0))
    last = bisect_left(context, (start, 0))
    if any(word_end <= start for _, word_end in context[first:last]):
        return True
    first = bisect_left(context, (end, 0))
    return first < len(context) and context[first][1] <= end + CONTEXT_AFTER_CHARS


def check(definition: Definition, limits: RecogniserLimits) -> int:
    """Return the instructions to which the patterns compile. Raises InvalidInput for a definition that cannot be
    used."""
    check_shape(definition, limits)
    _terms(definition)
    return sum(pattern.instructions for pattern in _patterns(definition))


def ready(content: bytes) -> OwnRecogniser:
    """Return the recogniser of a `Definition.packed`. Raises RecogniserBroken."""
    try:
        return OwnRecogniser(Definition.unpacked(content))
    except InvalidInput:
        raise RecogniserBroken from None


@dataclass(frozen=True)
class OwnHits:
    """The finds of one recogniser in one window: of its patterns, and the occurrences of its lists."""

    patterns: Hits
    denied: tuple[Range, ...]
    allowed: tuple[Range, ...]


OwnFinds = tuple[OwnHits, ...]  # in the order of the policy's recognisers


@dataclass(frozen=True)
class OwnRecognised:
    """The finds in a whole text. `allowed` is sorted."""

    found: Sequence[Mask]
    denied: Sequence[Mask]
    allowed: Sequence[Range]


NOTHING = OwnRecognised((), (), ())
OWN_PREFIX = "own."  # before the name of the recogniser, where an answer names what found a place


def search(
    text: str, recognisers: Sequence[OwnRecogniser], policy: MaskPolicy, between: Callable[[], object] = bool
) -> OwnFinds:
    """Return what each of the policy's recognisers finds in one window. Calls `between` before each pattern. Raises
    InvalidInput once the `SearchBudget` that they share is used up."""
    window, budget = Readings(text), SearchBudget()
    return tuple(
        _hits(window, recogniser, policy.threshold(recogniser.entity), budget, between) for recogniser in recognisers
    )


def _hits(
    window: Readings, recogniser: OwnRecogniser, threshold: float, budget: SearchBudget, between: Callable[[], object]
) -> OwnHits:
    best: dict[Range, float] = {}
    for find in recogniser.found(window, threshold=threshold, budget=budget, between=between):
        at = (find.hit.start, find.hit.end)
        best[at] = max(find.hit.score, best.get(at, 0.0))
    hits = [Hit(*at, score) for at, score in best.items()]
    return OwnHits(
        Hits([hit for hit in hits if hit.score >= threshold], [hit for hit in hits if hit.score < threshold]),
        tuple(recogniser.denied(window)),
        tuple(recogniser.allowed(window)),
    )


def join(text: str, policy: MaskPolicy, parts: Sequence[OwnFinds]) -> OwnRecognised:
    """Return the finds in the whole text. `parts`: those in each of `windows(text)`, in order.

    Raises RecogniserFailed if a part, or a recogniser in it, is missing.
    """
    cut = windows(text)
    if len(parts) != len(cut) or any(len(part) != len(policy.own) for part in parts):
        raise RecogniserFailed
    placing = extents(text, cut)
    found: list[Mask] = []
    denied: list[Mask] = []
    allowed: set[Range] = set()
    for own, hits in zip(policy.own, zip(*parts, strict=True), strict=True):
        windowed = list(zip(placing, hits, strict=True))
        passed = [_placed(extent, hit) for extent, each in windowed for hit in each.patterns.passed]
        weak = [_placed(extent, hit) for extent, each in windowed for hit in each.patterns.weak]
        whole = Hits([hit for hit in passed if hit], [hit for hit in weak if hit])
        name = OWN_PREFIX + own.name
        found += [Mask(hit.start, hit.end, own.entity, "entity", hit.score, name) for hit in whole.masked(text)]
        places = {extent.place(*at) for extent, each in windowed for at in each.denied}
        denied += [Mask(*at, own.entity, "entity", recogniser=name) for at in places if at]
        allowed |= {
            (start + extent.window.start, end + extent.window.start)
            for extent, each in windowed
            for start, end in each.allowed
            if extent.place(start, end)
        }
    return OwnRecognised(found, sorted(denied, key=lambda mask: (mask.start, mask.end)), sorted(allowed))


def _placed(extent: Extent, hit: Hit) -> Hit | None:
    at = extent.place(hit.start, hit.end)
    return Hit(*at, hit.score) if at else None


def by_allow_lists(masks: Iterable[Mask], allowed: Sequence[Range]) -> tuple[list[Mask], list[Mask]]:
    """Return the masks that stay, and those that lie completely within one of the ranges `allowed`, which are
    sorted."""
    starts = [start for start, _ in allowed]
    reach = list(accumulate((end for _, end in allowed), max))  # the farthest end of the ranges up to each
    kept: list[Mask] = []
    suppressed: list[Mask] = []
    for mask in masks:
        number = bisect_right(starts, mask.start)
        (suppressed if number and reach[number - 1] >= mask.end else kept).append(mask)
    return kept, suppressed


SHOWN_MAX = 1_000

ALLOWED, BELOW_THRESHOLD = "allow", "threshold"


@dataclass(frozen=True)
class DraftFind:
    """A find at `start:end` of the text. `pattern`: the number of the pattern, None for a term of the deny list.
    `context`: whether a context word is near; None for a deny term, and for a recogniser without context words.
    `suppressed_by`: the rule by which it is not masked, None if it is."""

    start: int
    end: int
    pattern: int | None
    score: float
    context: bool | None
    suppressed_by: str | None


@dataclass(frozen=True)
class DraftFinds:
    """The first `SHOWN_MAX` finds in order of position, and the number of all."""

    finds: tuple[DraftFind, ...]
    total: int


def try_out(text: str, recogniser: OwnRecogniser, *, threshold: float) -> DraftFinds:
    """Return what `recogniser` finds in `text`, by the rules of a request that names it alone. Raises InvalidInput once
    the `SearchBudget` of one of its windows is used up."""
    shown = visible(text)
    found = set(_found(shown, recogniser, threshold))
    allowed = sorted(set(_allowed(shown, recogniser)))
    passing = {shown[find.start : find.end] for find in found if find.score >= threshold}
    places = _places(text)
    finds = []
    for find in sorted(found, key=lambda each: (each.start, each.end, -1 if each.pattern is None else each.pattern)):
        rule = None
        if find.pattern is not None:
            if shown[find.start : find.end] not in passing:
                rule = BELOW_THRESHOLD
            elif by_allow_lists([Mask(find.start, find.end, "", "")], allowed)[1]:
                rule = ALLOWED
        start, end = places(find.start), places(find.end - 1) + 1
        finds.append(DraftFind(start, end, find.pattern, find.score, find.context, rule))
        if len(finds) == SHOWN_MAX:
            break
    return DraftFinds(tuple(finds), len(found))


def _found(text: str, recogniser: OwnRecogniser, threshold: float) -> Iterator[DraftFind]:
    cut = windows(text)
    for extent in extents(text, cut):
        window = Readings(text[extent.window.start : extent.window.end])
        for find in recogniser.found(window, threshold=threshold, budget=SearchBudget("recogniser")):
            if at := extent.place(find.hit.start, find.hit.end):
                yield DraftFind(*at, find.pattern, find.hit.score, find.context, None)
        for start, end in recogniser.denied(window):
            if at := extent.place(start, end):
                yield DraftFind(*at, None, 1.0, None, None)


def _allowed(text: str, recogniser: OwnRecogniser) -> Iterator[tuple[int, int]]:
    for window in windows(text):
        for start, end in recogniser.allowed(Readings(text[window.start : window.end])):
            yield start + window.start, end + window.start


def _places(text: str) -> Callable[[int], int]:
    """Return a function from characters of `visible(text)` to those of `text`."""
    gaps = list(hidden(text))
    removed = list(accumulate((end - start for start, end in gaps), initial=0))
    # the first visible character after each gap
    after = [end - total for (_, end), total in zip(gaps, removed[1:], strict=True)]
    return lambda place: place + removed[bisect_right(after, place)]
