"""The short answer to a question, with the question as its label: `What is your PIN?` and then `4412`.

An answer is a text that somebody was asked for by the text before it, the line of a speaker in a transcript or in the
view of a chat in JSON, or a line below one that ends with a question mark. It is read once more as lines `what is asked
for: value`. A find counts if it is a whole value of the answer, so that `42 apples` and a sentence stay, and if the
value is no plain word, so that `yes` does. A question for an amount (`How many ...?`) names nothing.

The cells of a table in a text are read in the same way, with the heading of their column: rows of cells between `,`,
`;`, `|` or tabs, below a line of as many words.

Cost: linear in the text. Questions, answers, and the ways to read them are bounded.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

from core.text.labelled import longest_first, phrases
from core.text.recogniser import BOUNDARY, Hit, Span, texts_of
from core.text.recognisers.records import cells_of

QUESTION_CHARS_MAX = 240
ANSWER_CHARS_MAX = 90
REQUESTS_MAX = 2  # of one text: `Please enter your PIN. Do you need help?`
HEAD_CHARS_MIN = 3
HEADS_MAX = 6
HEAD_CHARS_MAX = 100  # more than a recogniser reads before a value
VALUES_MAX = 4
CELLS_MIN = 2  # of the row of a table
LABELLED_SHARE = 4  # how much longer the labelled text may be than the text; few questions have so many readings

_TEXTS = texts_of(__name__)


def _any(key: str) -> str:
    return longest_first(phrases(_TEXTS[key]))


_SENTENCE = regex.compile(r"(?:[^.!?\n]|[.!?](?=[^\s.!?]))+[.!?]*")
_REQUEST = regex.compile(rf"\?\s*\Z|(?<!\p{{L}})(?:{_any('requests')})(?!\p{{L}})", regex.IGNORECASE)
_AMOUNT = regex.compile(rf"(?<!\p{{L}})(?:{_TEXTS['amounts']})(?!\p{{L}})", regex.IGNORECASE)
_TAIL = regex.compile(rf"(?:\s*[,;(\[–—]|\s(?:{_any('tails')})(?!\p{{L}}))+|\s*[.!?:]*\Z", regex.IGNORECASE)
_FILLER = rf"(?:(?<![\w])(?:{_any('fillers')})(?![\w'’])|[\s,.:!;=–—-])"
_VALUE = regex.compile(rf"{_FILLER}*+(?P<value>.*?){_FILLER}*\Z", regex.IGNORECASE | regex.DOTALL)
_AND = regex.compile(r"\s*(?:[,;\n]|(?<!\w)(?:and|und|et|y|e|en|i|oraz)(?!\w))\s*", regex.IGNORECASE)
_NO_WORD = regex.compile(r"\d|[^\s\p{L}.,'’!?/-]|\A(?:[A-Z]{8}(?:[A-Z]{3})?|\p{Ll}+(?:-\p{Ll}+){2,})\Z")
_LINE = regex.compile(
    r"(?m)^[ \t>*_-]{0,6}(?:\[[^\]\n]{1,30}\][ ]?|\d\d?[:.]\d\d[ ])?[\"']?(?P<who>\p{L}[\p{L}\p{N} ._'’()-]{0,30})"
    r"[\"']?[*_]{0,2}:[*_]{0,2}[ \t]+(?P<said>\S.*)$"
)
_BELOW = regex.compile(r"(?m)^(?P<asked>[^\n]{3,240}\?)[ \t]*\n{1,2}[ \t>*-]{0,4}(?P<said>[^\n]{1,90})$")
_ROW = re.compile(r"(?m)^.*?[,;|\t].*$")
_HEADING = regex.compile(r"(?:[\p{L}_#][\p{L}\p{N} _.#/°º()-]{0,39})?")
_LOGIN = regex.compile(_TEXTS["logins"], regex.IGNORECASE)
_SAID = frozenset(("content", "text", "message", "value", "body"))  # keys of a chat in JSON
_SPEAKER = frozenset(("role", "from", "speaker", "author", "sender", "name"))


class _Read(NamedTuple):
    """Code points [start, end) of the labelled text, which are [at, at_end) of the text."""

    start: int
    end: int
    at: int
    at_end: int


class Answers(NamedTuple):
    """`labelled`: the values of a text after what was asked for."""

    labelled: str
    reads: Sequence[_Read]
    digits: int

    def __repr__(self) -> str:
        return f"Answers({len(self.reads)})"

    def placed(self, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits in the labelled text that are whole values, at their places in the text."""
        scores = {(hit.start, hit.end): hit.score for hit in hits}
        return [Hit(read.at, read.at_end, scores[read[:2]]) for read in self.reads if read[:2] in scores]


def question_for(text: str, before: str) -> str:
    """Return the part of `before` that asks for what `text` may be, empty without one."""
    if not any(True for _ in _values(text, 0, len(text))):
        return ""
    asking = [each.strip() for each in _SENTENCE.findall(before[-4 * QUESTION_CHARS_MAX :]) if _REQUEST.search(each)]
    named = [each[-QUESTION_CHARS_MAX:] for each in asking[-REQUESTS_MAX:] if not _AMOUNT.search(each)]
    return "\n".join(named)


def answers_in(text: str, question: str = "") -> Answers | None:
    """Return the answers of a text: itself, if somebody asked `question`, and else those of the speakers in it."""
    lines: list[str] = []
    reads: list[_Read] = []
    written = 0
    for heads, parts in [(_heads(question), [*_values(text, 0, len(text))])] if question else _in_text(text):
        if written > LABELLED_SHARE * (len(text) + QUESTION_CHARS_MAX):
            break
        for head in heads:
            for at, at_end in parts:
                first = written + len(head) + 2
                reads.append(_Read(first, first + at_end - at, at, at_end))
                lines.append(f"{head}: {text[at:at_end]}\n{BOUNDARY}\n")
                written += len(lines[-1])
    labelled = "".join(lines)
    return Answers(labelled, reads, sum(map(str.isdecimal, labelled))) if reads else None


def _heads(question: str) -> Iterator[str]:
    """Yield the beginnings of a question that may end with what it asks for."""
    for sentence in question.split("\n"):
        ends = dict.fromkeys(match.start() for match in _TAIL.finditer(sentence) if match.start() >= HEAD_CHARS_MIN)
        yield from (sentence[max(0, end - HEAD_CHARS_MAX) : end] for end in list(ends)[:HEADS_MAX])


def _values(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield what may be a value of a short answer: all of it, and its parts."""
    if len(text[start:end].strip()) > ANSWER_CHARS_MAX:
        return
    gaps = [(start, start), *(gap.span() for gap in _AND.finditer(text, start, end)), (end, end)]
    parts = [(start, end), *((one[1], two[0]) for one, two in pairwise(gaps))]
    for at, at_end in dict.fromkeys(parts[: VALUES_MAX + 1]):
        found = _VALUE.match(text, at, at_end)
        if found and _NO_WORD.search(found["value"]):
            yield found.span("value")


def _in_text(text: str) -> Iterator[tuple[Iterable[str], list[Span]]]:
    """Yield what may be asked for, and what may be the values that answer it."""
    for asked, start, end in chain(_of_speakers(text), _below_questions(text)):
        yield _heads(asked), [*_values(text, start, end)]
    for heading, cell in _in_tables(text):
        yield (heading,), [cell]


def _below_questions(text: str) -> Iterator[tuple[str, int, int]]:
    for line in _BELOW.finditer(text) if "?" in text else ():
        if asked := question_for(line["said"], line["asked"]):
            yield asked, *line.span("said")


def _in_tables(text: str) -> Iterator[tuple[str, Span]]:
    """Yield headings, each with a cell below it that is no plain word, or the name of an account."""
    headings: list[Span] = []
    last = 0
    for line in _ROW.finditer(text):
        if line.start() > last + 1:
            headings = []
        last = line.end()
        cells = cells_of(text, *line.span(), CELLS_MIN)
        if headings and len(cells) == len(headings):
            for heading, cell in zip(headings, cells, strict=True):
                name, value = text[slice(*heading)], text[slice(*cell)]
                if 0 < len(value) <= ANSWER_CHARS_MAX and (_NO_WORD.search(value) or _LOGIN.search(name)):
                    yield name, cell
        else:
            headings = cells if all(_HEADING.fullmatch(text, *cell) for cell in cells) else []


def _of_speakers(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the questions and answers of speakers: the line of one, and before it the words of another."""
    if ": " not in text:
        return
    lines = (line for line in _LINE.finditer(text) if _key(line) not in _SPEAKER)
    for line, following in pairwise(lines):
        between = text[line.start("said") : following.start()]
        is_turn = line["who"] != following["who"] or _key(line) in _SAID
        if is_turn and (asked := question_for(following["said"], between)):
            yield asked, *following.span("said")


def _key(line: "regex.Match[str]") -> str:
    return str(line["who"]).split()[-1].lower()
