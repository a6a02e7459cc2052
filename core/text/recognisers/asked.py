"""The short answer to a question, with the question as its label: `What is your PIN?` and then `4412`.

An answer is a text that the turns before it asked for, the line of a speaker in a transcript or in the view of a chat
in JSON, or a line below one that ends with a question mark. It is read once more as lines `what is asked for: value`. A
find counts if it is a whole value of the answer, so that `42 apples` and a sentence stay, and if the value is no plain
word, so that `yes` does. A question for an amount (`How many ...?`) names nothing. The answer to a question for a
password, an account name, or what unlocks an account (a maiden name, the name of a pet) may be plain words, unless they
are those of a reply (`I forgot it`).

A question stays open for a few turns (`Just a second.`), until one answers it and another one follows.

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
REQUESTS_MAX = 3  # that are open: `Please enter your PIN. Do you need help?`
TURNS_MAX = 6  # without a new question, after which none is open
HEAD_CHARS_MIN = 3
HEADS_MAX = 6
HEAD_CHARS_MAX = 100  # more than a recogniser reads before a value
VALUES_MAX = 4
CELLS_MIN = 2  # of the row of a table
LABELLED_SHARE = 4  # how much longer the labelled text may be than the text; few questions have so many readings
WORDS_MAX = 3  # of a value without a label
POINTS_BACK_CHARS = 40  # of a request for `it`
SAID_SCORE = 0.75

_TEXTS = texts_of(__name__)


def _any(key: str) -> str:
    return longest_first(phrases(_TEXTS[key]))


_SENTENCE = regex.compile(r"(?:[^.!?\n]++|[.!?](?=[^\s.!?]))++[.!?]*+")
_REQUEST = regex.compile(rf"\?\s*\Z|(?<!\p{{L}})(?:{_any('requests')})(?!\p{{L}})", regex.IGNORECASE)
_REQUEST_WORDS = phrases(_TEXTS["requests"])
_ASKS = regex.compile(rf"(?<!\p{{L}})(?:{_any('requests')}|{_any('recalls')})(?!\p{{L}})", regex.IGNORECASE)
_YES_OR_NO = regex.compile(
    rf"[\s¿¡\"']*(?:(?:{_any('links')})[\s,]+)*(?:{_any('yes_or_no')})(?!\p{{L}})", regex.IGNORECASE
)
_POINTS_BACK = regex.compile(rf"(?<!\p{{L}})(?:{_any('pronouns')})(?!\p{{L}})", regex.IGNORECASE)
_OTHER = regex.compile(rf"(?<!\p{{L}})(?:{_TEXTS['others']})(?!\p{{L}})", regex.IGNORECASE)
_AMOUNT = regex.compile(rf"(?<!\p{{L}})(?:{_TEXTS['amounts']})(?!\p{{L}})", regex.IGNORECASE)
_ENDS = rf"\s*[,;(\[–—]|\s(?:{_any('tails')})(?!\p{{L}})"
_TAIL = regex.compile(rf"(?:{_ENDS})+|\s*[.!?:]*\Z", regex.IGNORECASE)
_FILLER = rf"(?:(?<![\w])(?:{_any('fillers')})(?![\w'’])|[\s,.:!;=–—-])"
_VALUE = regex.compile(rf"{_FILLER}*+(?P<value>.*?){_FILLER}*\Z", regex.IGNORECASE | regex.DOTALL)
_FIRST_SENTENCE = re.compile(r"(?<=\w\w)[.!](?=\s)")
_AND = regex.compile(r"\s*(?:[,;\n]|(?<!\w)(?:and|und|et|y|e|en|i|oraz)(?!\w))\s*", regex.IGNORECASE)
_NO_WORD = regex.compile(r"\d|[^\s\p{L}.,'’!?/-]|\A(?:[A-Z]{8}(?:[A-Z]{3})?|\p{Ll}+(?:-\p{Ll}+){2,})\Z")
# what is asked for whose answer has no form, by its entity; a question for a code has a number as its answer
_WORDED = [
    (entity, regex.compile(rf"(?<!\p{{L}})(?:{_TEXTS[key]})(?=\s*[.!?:]*\Z|{_ENDS})", regex.IGNORECASE))
    for entity, key in (("USERNAME", "accounts"), ("PASSWORD", "secrets"))
]
_CODE = regex.compile(rf"(?<!\p{{L}})(?:{_TEXTS['codes']})", regex.IGNORECASE)
_CODE_VALUE = regex.compile(r"(?=\D*\d)[A-Z\d]{1,4}(?:[ -]?[A-Z\d]{1,8}){1,3}", regex.IGNORECASE)
_STATED = regex.compile(rf".*(?<!\p{{L}})(?:{_any('verbs')})\s[\s\"'„“«]*", regex.IGNORECASE | regex.DOTALL)
_REPLIES = frozenset(_TEXTS["replies"].split()) | frozenset(_TEXTS["amiss"].split())
_WORD = regex.compile(r"[\p{L}\p{M}]+")
_LINE = regex.compile(
    r"(?m)^[ \t>*_-]{0,6}(?:\[[^\]\n]{1,30}\][ ]?|\d\d?[:.]\d\d[ ])?[\"']?(?P<who>\p{L}[\p{L}\p{N} ._'’()-]{0,30})"
    r"[\"']?[*_]{0,2}:[*_]{0,2}[ \t]+(?P<said>\S.*)$"
)
_BELOW = regex.compile(r"(?m)^(?P<asked>[^\n]{3,240}\?)[ \t]*(?:\r?\n){1,2}[ \t>*-]{0,4}(?P<said>[^\n]{1,90})$")
_ROW = re.compile(r"(?m)^.*?[,;|\t].*$")
_HEADING = regex.compile(r"(?:[\p{L}_#][\p{L}\p{N} _.#/°º()-]{0,39})?")
_LOGIN = regex.compile(_TEXTS["logins"], regex.IGNORECASE)
_SAID = frozenset(("content", "text", "message", "value", "body"))  # keys of a chat in JSON
_SPEAKER = frozenset(("role", "from", "speaker", "author", "sender", "name"))


class Asked(NamedTuple):
    """What the turns of a conversation asked for last. `answered`: something like an answer came since. `turns`: since
    the last request."""

    sentences: tuple[str, ...] = ()
    answered: bool = False
    turns: int = 0

    def __repr__(self) -> str:
        return f"Asked({len(self.sentences)})"

    def after(self, turn: str) -> "Asked":
        """What is asked for after one more turn."""
        asked = _requests(turn)
        if asked:
            closed = self.answered or any(map(_OTHER.search, asked))
            return Asked((*(() if closed else self.sentences), *asked)[-REQUESTS_MAX:])
        if not self.sentences or self.turns == TURNS_MAX:
            return NOTHING_ASKED
        return Asked(self.sentences, self.answered or bool(self.question_for(turn)), self.turns + 1)

    def question_for(self, text: str) -> str:
        """Return the questions that `text` may answer, one a line; empty without one."""
        if not self.sentences or len(text.strip()) > ANSWER_CHARS_MAX:
            return ""
        named = "\n".join(each for each in self.sentences if not _AMOUNT.search(each))
        whole = (text, 0, len(text))
        return named if any(True for _ in chain(_values(*whole), _said(*whole, named))) else ""


NOTHING_ASKED = Asked()


def _requests(turn: str) -> list[str]:
    """Return the last sentences of a turn that ask for something, each after the one that says what it asks for
    (`We sent you a code. Please enter it.`)."""
    turn = turn[-4 * QUESTION_CHARS_MAX :]
    if not _may_ask(turn):
        return []
    sentences = [each.strip() for each in _SENTENCE.findall(turn)]
    found = []
    for before, sentence in pairwise(["", *sentences]):
        if _may_ask(sentence) and _REQUEST.search(sentence):
            points_back = len(sentence) <= POINTS_BACK_CHARS and _POINTS_BACK.search(sentence)
            found += [each[-QUESTION_CHARS_MAX:] for each in (before if points_back else "", sentence) if each]
    return list(dict.fromkeys(found))[-REQUESTS_MAX:]


def _may_ask(text: str) -> bool:
    low = text.lower()
    return "?" in low or any(map(low.__contains__, _REQUEST_WORDS))


class _Read(NamedTuple):
    """Code points [start, end) of the labelled text, which are [at, at_end) of the text."""

    start: int
    end: int
    at: int
    at_end: int


class Answers(NamedTuple):
    """`labelled`: the values of a text after what was asked for. `said`: values that need no label, by their entity."""

    labelled: str
    reads: Sequence[_Read]
    said: Sequence[tuple[str, Hit]]
    digits: int

    def __repr__(self) -> str:
        return f"Answers({len(self.reads)})"

    def placed(self, entity: str, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits in the labelled text that are whole values, at their places in the text, and what is said of
        the entity."""
        scores = {(hit.start, hit.end): hit.score for hit in hits}
        placed = [Hit(read.at, read.at_end, scores[read[:2]]) for read in self.reads if read[:2] in scores]
        return [*placed, *(hit for each, hit in self.said if each == entity)]


def answers_in(text: str, question: str = "") -> Answers | None:
    """Return the answers of a text: itself, if somebody asked `question`, and else those of the speakers in it."""
    lines: list[str] = []
    reads: list[_Read] = []
    said: list[tuple[str, Hit]] = []
    written = 0
    for heads, parts, own in _readings(text, question):
        if written > LABELLED_SHARE * (len(text) + QUESTION_CHARS_MAX):
            break
        said += own
        for head in heads:
            for at, at_end in parts:
                first = written + len(head) + 2
                reads.append(_Read(first, first + at_end - at, at, at_end))
                lines.append(f"{head}: {text[at:at_end]}\n{BOUNDARY}\n")
                written += len(lines[-1])
    labelled = "".join(lines)
    return Answers(labelled, reads, said, sum(map(str.isdecimal, labelled))) if reads or said else None


def _heads(question: str) -> Iterator[str]:
    """Yield the beginnings of a question that may end with what it asks for."""
    for sentence in question.split("\n"):
        ends = dict.fromkeys(match.start() for match in _TAIL.finditer(sentence) if match.start() >= HEAD_CHARS_MIN)
        yield from (sentence[max(0, end - HEAD_CHARS_MAX) : end] for end in list(ends)[:HEADS_MAX])


def _parts(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield a short answer without the words beside its value, and then its parts."""
    inner = text[start:end].strip()
    if not inner or len(inner) > ANSWER_CHARS_MAX:
        return
    start = text.index(inner, start)  # patterns read no long white space, of which they take the square in time
    end = start + len(inner)
    gaps = [(start, start), *(gap.span() for gap in _AND.finditer(text, start, end)), (end, end)]
    parts = [(start, end), *((one[1], two[0]) for one, two in pairwise(gaps))]
    for part in dict.fromkeys(parts[: VALUES_MAX + 1]):
        found = _VALUE.match(text, *part)
        if found and found["value"]:
            yield found.span("value")


def _values(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield what may be a value of a short answer or of its first sentence, and is no plain word."""
    first = _FIRST_SENTENCE.search(text, start, min(end, start + ANSWER_CHARS_MAX))
    parts = dict.fromkeys((*_parts(text, start, end), *(_parts(text, start, first.start()) if first else ())))
    return (part for part in parts if _NO_WORD.search(text[slice(*part)]))


def _said(text: str, start: int, end: int, question: str) -> Iterator[tuple[str, Hit]]:
    """Yield the values of a short answer that are what was asked for, whatever they look like."""
    entities = [
        entity
        for sentence in question.split("\n")
        for entity, words in _WORDED
        if words.search(sentence) and (_ASKS.search(sentence) or not _YES_OR_NO.match(sentence))
    ]
    has_code = _CODE.search(question) is not None
    if not entities and not has_code:
        return
    whole, *parts = [*_parts(text, start, end), (0, 0)][:-1] or [(0, 0)]
    for number, part in enumerate(parts or [whole]):
        stated = _STATED.match(text, *part)
        at, at_end = (stated.end() if stated else part[0]), part[1]
        value = text[at:at_end].strip("\"'`“”„«»")
        at = text.index(value, at)
        if entities and _is_said(value):
            yield entities[min(number, len(entities) - 1)], Hit(at, at + len(value), SAID_SCORE)
        elif has_code and _CODE_VALUE.fullmatch(value):
            yield "PASSWORD", Hit(at, at + len(value), SAID_SCORE)


def _is_said(value: str) -> bool:
    """Whether plain words may be what was asked for, and are no reply of another kind."""
    if len(value) < 2 or len(value.split()) > WORDS_MAX or value[-1] == "?":
        return False
    marked = " " not in value and _NO_WORD.search(value)
    return bool(marked) or not _REPLIES.intersection(_WORD.findall(value.casefold()))


def _readings(text: str, question: str) -> Iterator[tuple[Iterable[str], list[Span], list[tuple[str, Hit]]]]:
    """Yield what may be asked for, what may be the values that answer it, and those that need no label."""
    answers = [(question, 0, len(text))] if question else chain(_of_speakers(text), _below_questions(text))
    for asked, start, end in answers:
        yield _heads(asked), [*_values(text, start, end)], [*_said(text, start, end, asked)]
    for heading, cell in () if question else _in_tables(text):
        yield (heading,), [cell], []


def _below_questions(text: str) -> Iterator[tuple[str, int, int]]:
    for line in _BELOW.finditer(text) if "?" in text else ():
        asked = "" if _LINE.match(line["said"]) else NOTHING_ASKED.after(line["asked"]).question_for(line["said"])
        if asked:
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
    """Yield the questions and answers of speakers: the line of one, and before it the words of others."""
    if ": " not in text:
        return
    asked = NOTHING_ASKED
    askers: dict[str, str] = {}
    lines = [line for line in _LINE.finditer(text) if _key(line) not in _SPEAKER]
    if len({line["who"] for line in lines}) == 1 and _key(lines[0]) not in _SAID:
        return  # a log, in which nobody asks another one
    for line, following in pairwise(lines):
        asked = asked.after(text[line.start("said") : following.start()])
        askers = {each: askers.get(each, line["who"]) for each in asked.sentences}
        of_others = (each for each in asked.sentences if askers[each] != following["who"] or _key(line) in _SAID)
        if question := asked._replace(sentences=tuple(of_others)).question_for(following["said"]):
            yield question, *following.span("said")


def _key(line: "regex.Match[str]") -> str:
    return str(line["who"]).split()[-1].lower()
