"""Speakers of conversations that write their names in small letters: `gio: raga stasera`, `[21:03] <kiki_91> hi`.

A line of a conversation is a name, a colon and words, with a time stamp before it or without one. A line counts if its
name is a given name or a short form of one, and else as a part of a run of such lines in which two speakers take
turns, one of them more than once, and somebody says what only people say to each other (a question, `lol`, `danke`).
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
_OTHERS = frozenset(phrases(_TEXTS["others"]))
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
    turns = _turns(lines)
    for line in lines:
        part = "nick" if line["nick"] else "name"
        known = line[part].strip("_.-0123456789") in _NAMES and _WORDS.match(line["said"]) is not None
        if known or turns:
            start, end = line.span(part)
            yield Hit(start, end, STRONG_SCORE if known else SPEAKER_SCORE)


def _speaker(line: regex.Match[str]) -> bool:
    name = line["nick"] or line["name"]
    return (
        (len(name) > 2 or name in _NAMES)
        and name not in _OTHERS
        and not (line["nick"] and name in _TAGS)
        and not line["said"].startswith(("|", ">", "{"))
    )


def _turns(lines: list[regex.Match[str]]) -> bool:
    """Whether two speakers or more take turns in `lines`, and talk."""
    names = [line["nick"] or line["name"] for line in lines]
    changes = sum(one != other for one, other in pairwise(names))
    stamped = sum(bool(line["stamp"]) for line in lines) * 2 > len(lines)
    if len(names) < 3 - stamped or len(set(names)) < 2 or changes < 2 - stamped:
        return False
    if len(set(names)) == len(names) and not stamped:
        return False
    said = [line["said"] for line in lines]
    return sum(_WORDS.match(each) is not None for each in said) * 2 >= len(said) and any(map(_TALK.search, said))
