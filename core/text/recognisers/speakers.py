"""Speakers of conversations that write their names in small letters: `gio: raga stasera`, `[21:03] <kiki_91> hi`.

A line of a conversation is a name, a colon and words, with a time stamp before it or without one. A line counts if its
name is a given name or a short form of one, and else as a part of a run of such lines:

* one beside a line of a given name;
* in which two speakers take turns, one of them more than once or with time stamps, and somebody says what people say to
  each other (a question, `you`, `danke`);
* of two or three speakers, of whom one says what is said in chats alone (`lol`, `moin`), or answers yes or no. No line
  of such a run has another word before its colon.

Words such as `todo`, `note`, roles such as `assistant`, and keys of files are no speakers.

Cost: linear in the text.
"""

from collections.abc import Iterator
from itertools import pairwise

import regex  # type: ignore[import-untyped]

from core.text.labelled import phrases
from core.text.recogniser import Hit, matches, texts_of

_TEXTS = texts_of(__name__)

SPEAKER_SCORE = 0.7
STRONG_SCORE = 0.75

_NAMES = frozenset(phrases(_TEXTS["names"]))
OTHERS = frozenset(phrases(_TEXTS["others"]))
_STAMP = r"(?:\d{1,4}[./-]\d{1,2}[./-]\d{1,4},?[ T])?\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?:[ ]?[ap]\.?m\.?)?"
_LINE = regex.compile(
    rf"(?m)^[ ]?(?P<stamp>\[{_STAMP}\][ ]|{_STAMP}[ ](?:-[ ])?)?"
    r"(?:<[@+~&% ]?(?P<nick>\p{Ll}[\p{Ll}\d_.-]{1,19})>[ ]|(?P<name>\p{Ll}[\p{Ll}\d_.-]{1,19})[ ]?(?::[ ]{1,2}))"
    r"(?P<said>[^\n]*)$"
)
_QUICK = regex.compile(r"(?m)^[ \d\[\]:.,/<-]{0,26}\p{Ll}[\p{Ll}\d_.-]{1,19}(?:>|[ ]?:)[ ]")
_WORDS = regex.compile(r"\p{L}{2,}[ ,.!?…]+[^\n]{0,40}?\p{L}|\p{L}{2,}[^\n]{0,20}[?!]")
_TALK = regex.compile(
    rf"(?<![\p{{L}}'’])(?:{_TEXTS['talk']})(?![\p{{L}}'’])|\?[ ]{{0,2}}$|[\U0001F300-\U0001FAFF]", regex.IGNORECASE
)
_SHORT = regex.compile(r"\p{L}{1,15}(?:,?[ ]\p{L}{1,15}){0,2}[.!?…]{0,3}")
_CHAT = regex.compile(
    rf"(?<![\p{{L}}'’])(?:{_TEXTS['chat']})(?![\p{{L}}'’])"
    rf"|^(?:{_TEXTS['answers']})(?:[ ]?[!.,…]|$)|[\U0001F300-\U0001FAFF]",
    regex.IGNORECASE,
)
_TAGS = frozenset(
    phrases("div|span|b|i|p|a|u|li|ul|ol|h1|h2|h3|br|hr|em|strong|code|pre|table|tr|td|th|title|body|head")
)


def speakers(text: str) -> Iterator[Hit]:
    """Yield the names of speakers in small letters."""
    if _QUICK.search(text) is None:
        return
    run: list[regex.Match[str]] = []
    for line in matches(_LINE, text):
        if run and text[run[-1].end() : line.start()].strip("\n "):
            yield from _of_run(run)
            run = []
        run.append(line)
    yield from _of_run(run)


def _of_run(run: list[regex.Match[str]]) -> Iterator[Hit]:
    """Yield the speakers of consecutive lines."""
    lines = [line for line in run if _speaker(line)]
    known = [_given(line) and _WORDS.match(line["said"]) is not None for line in lines]
    beside = any(known) and len(lines) == len(run) and all(map(_said, lines))
    together = beside or _turns(lines) or (len(lines) == len(run) and _answers(lines))
    for line, own in zip(lines, known, strict=True):
        if own or together:
            start, end = line.span("nick" if line["nick"] else "name")
            yield Hit(start, end, STRONG_SCORE if own else SPEAKER_SCORE)


def _given(line: regex.Match[str]) -> bool:
    return (line["nick"] or line["name"]).strip("_.-0123456789") in _NAMES


def _said(line: regex.Match[str]) -> bool:
    """Whether words follow a name, and neither a number nor a value of a setting."""
    return _WORDS.search(line["said"]) is not None or _SHORT.fullmatch(line["said"]) is not None


def _speaker(line: regex.Match[str]) -> bool:
    name = line["nick"] or line["name"]
    return name not in OTHERS and not (line["nick"] and name in _TAGS) and not line["said"].startswith(("|", ">", "{"))


def _turns(lines: list[regex.Match[str]]) -> bool:
    """Whether two speakers or more take turns in `lines`, and talk."""
    names = [line["nick"] or line["name"] for line in lines]
    changes = sum(one != other for one, other in pairwise(names))
    stamped = sum(bool(line["stamp"] or line["nick"]) for line in lines) * 2 > len(lines)
    if len(names) < 3 - stamped or len(set(names)) < 2 or changes < 2 - stamped:
        return False
    if len(set(names)) == len(names) and not stamped:
        return False
    said = [line["said"] for line in lines]
    return sum(_WORDS.match(each) is not None for each in said) * 2 >= len(said) and any(map(_TALK.search, said))


def _answers(lines: list[regex.Match[str]]) -> bool:
    """Whether `lines` are one each of two or three speakers, who talk as in a chat."""
    names = {line["nick"] or line["name"] for line in lines}
    in_chat = any(_CHAT.search(line["said"]) for line in lines)
    return len(names) in (2, 3) and in_chat and all(map(_said, lines))
