"""What texts that are made to be expensive cost `/sanitize`: processor time of patterns, and how it grows with length.

    nice python -m benchmarks.hostile_texts [--only NAME ...] [--characters N ...] [--seconds-min S]

Each text is one unit again and again. The recognisers read it in the windows of production. The table has, for each
unit and length, the processor seconds of all recognisers together, of the slowest one, and of `inspect` with the
default entities, `DATE_TIME` and `AGE`, all for one million characters. The growth is that of `inspect` from one
length to the next, divided by that of the length: 1 is linear. A recogniser that raises is shown as an error.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from core.errors import RecogniserFailed
from core.text.lists import AllowLists
from core.text.mask_entity import recognisers
from core.text.policy import DEFAULT_ENTITIES, MaskPolicy
from core.text.recogniser import Recogniser
from core.text.sanitize import inspect
from core.text.visible import visible
from core.text.windows import windows

CHARACTERS = (60_000, 125_000, 250_000, 500_000)
MILLION = 1_000_000
ENTITIES = (*DEFAULT_ENTITIES, "DATE_TIME", "AGE")

UNITS: Mapping[str, str] = {
    # letters, digits and separators
    "a": "a",
    "A": "A",
    "1": "1",
    "4": "4",
    "A1": "A1",
    "a1 ": "a1 ",
    "1-": "1-",
    "1.": "1.",
    "1,": "1,",
    "1/": "1/",
    "1:": "1:",
    "1 ": "1 ",
    "12 ": "12 ",
    "123 ": "123 ",
    "1234 ": "1234 ",
    "123-": "123-",
    "+1": "+1",
    "(1) ": "(1) ",
    "a ": "a ",
    "a 1 ": "a 1 ",
    "e, 1. ": "e, 1. ",
    "A ": "A ",
    "A. ": "A. ",
    "a-": "a-",
    "a_": "a_",
    "a.": "a.",
    "a'": "a'",
    "-": "-",
    "_": "_",
    ".": ".",
    "/": "/",
    "#": "#",
    "%": "%",
    "*": "*",
    "=": "=",
    ":": ":",
    "+": "+",
    "space": " ",
    "line break": "\n",
    "tab": "\t",
    "CRLF": "\r\n",
    # addresses
    "a@": "a@",
    "@": "@",
    "a@a": "a@a",
    "a@a.": "a@a.",
    "a@b.co ": "a@b.co ",
    "a.a@": "a.a@",
    "a at b dot ": "a at b dot ",
    "http://": "http://",
    "http://a.": "http://a.",
    "www.": "www.",
    "://a:b@": "://a:b@",
    "//": "//",
    "?a=b&": "?a=b&",
    "1.1.1.1.": "1.1.1.1.",
    "::": "::",
    "a::": "a::",
    "aa:": "aa:",
    "/home/": "/home/",
    "C:\\Users\\": "C:\\Users\\",
    # labels
    "key=": "key=",
    "password=": "password=",
    "password: ": "password: ",
    "password ": "password ",
    "passwort ist ": "passwort ist ",
    "user=": "user=",
    "user ": "user ",
    "token ": "token ",
    "Bearer ": "Bearer ",
    "passport no ": "passport no ",
    "passport no. 1 ": "passport no. 1 ",
    "id no of the ": "id no of the ",
    "number ": "number ",
    "number 1 ": "number 1 ",
    "VIN 1": "VIN 1",
    "IBAN ": "IBAN ",
    "DE12 ": "DE12 ",
    "SSN 1-": "SSN 1-",
    "tel ": "tel ",
    "tel 1 ": "tel 1 ",
    # dates, ages and places
    "1/1/": "1/1/",
    "1/1/20 ": "1/1/20 ",
    "1 May ": "1 May ",
    "May ": "May ",
    "1. ": "1. ",
    "2020-": "2020-",
    "geb. ": "geb. ",
    "born 1 ": "born 1 ",
    "born on the ": "born on the ",
    "aged 1 ": "aged 1 ",
    "1 years ": "1 years ",
    "12:00 ": "12:00 ",
    "1.5, ": "1.5, ",
    "1° 1' ": "1° 1' ",
    "lat ": "lat ",
    "51.12345, ": "51.12345, ",
    # secrets and encodings
    "0x": "0x",
    "0x1f": "0x1f",
    "hex": "9f86d081884c7d65",
    "base64": "QmFzZTY0IHRleHQ/cXVlc3Rpb24+",
    "base64 lines": "QmFzZTY0IHRleHQgcXVlc3Rpb24gcXVlc3Rpb24gdGV4dCBCYXNl\n",
    "eyJ": "eyJ",
    "eyJ.": "eyJ.",
    "sk-": "sk-",
    "AKIA": "AKIA",
    "ghp_": "ghp_",
    "-----BEGIN ": "-----BEGIN ",
    "-----BEGIN A-----": "-----BEGIN A-----",
    "-----BEGIN PRIVATE KEY-----": "-----BEGIN PRIVATE KEY-----\n",
    # brackets, quotes and formats
    "{": "{",
    "[": "[",
    "(": "(",
    "<": "<",
    '"': '"',
    "'": "'",
    "\\": "\\",
    "|": "|",
    ";": ";",
    '{"a":': '{"a":',
    '{"password":"': '{"password":"',
    '"a","1",': '"a","1",',
    "1;1;": "1;1;",
    "<a href=": "<a href=",
    "<b>1</b>": "<b>1</b>",
    "&amp;": "&amp;",
    "From: a@b.co": "From: a <a@b.co>\n",
    "log line": '1.2.3.4 - - [1/May/2020:10:00:00 +0000] "GET /?user=a HTTP/1.1" 200 1\n',
    # scripts and invisible characters
    "emoji": "😀",
    "emoji family": "👩\u200d👩\u200d👧",
    "flags": "🇩🇪",
    "combining": "e\u0301",
    "combining only": "\u0301",
    "right-to-left marks": "\u200f",
    "digit and right-to-left mark": "1\u200f",
    "digit and zero-width joiner": "4\u200d",
    "letter and zero-width space": "a\u200b",
    "overrides": "\u202ea\u202c",
    "homoglyphs": "\u0430\u0435@\u0440.\u0441\u043e\u043c ",
    "Arabic": "محمد بن ",
    "Arabic digits": "\u0661\u0662\u0663 ",
    "Chinese": "张伟的电话",
    "Chinese and digits": "电话1",
    "Hebrew": "שלום ",
    "Thai": "สวัสดี",
    "full-width digits": "\uff11\uff12\uff13",
    "full-width letters": "\uff2a\uff55\uff4e",
    "mathematical letters": "𝐀𝟏",
    "surrogate-like": "\ufffd\ufffe",
    "null": "\0",
    "no-break spaces": "1\u00a0",
    "mixed scripts": "Anna Анна 安娜 آنا ",
    "names": "Anna Müller und ",
}


class Cost(NamedTuple):
    """Processor seconds: of all recognisers, of the slowest and its name, and of `inspect`."""

    all_s: float
    slowest: str
    slowest_s: float
    inspect_s: float
    errors: tuple[str, ...]


def repeated(unit: str, characters: int) -> str:
    """Return a text of `characters` characters."""
    return (unit * (characters // len(unit) + 1))[:characters]


def processor_s(call: Callable[[], object]) -> tuple[float, bool]:
    """Return the processor seconds of a call, and whether it returned."""
    began = time.process_time()
    try:
        call()
    except (RecogniserFailed, TimeoutError):
        return time.process_time() - began, False
    return time.process_time() - began, True


def of_recogniser(recogniser: Recogniser, parts: list[tuple[str, int]]) -> tuple[float, bool]:
    """Return the processor seconds of one recogniser in all windows, and whether it returned."""
    return processor_s(lambda: [recogniser.hits(part, threshold=0.5, digits=digits) for part, digits in parts])


def cost(text: str) -> Cost:
    """Return what a text costs."""
    shown = visible(text)
    parts = [shown[window.start : window.end] for window in windows(shown)]
    counted = [(part, sum(map(str.isdecimal, part))) for part in parts]
    each: dict[str, float] = {}
    errors: list[str] = []
    for entity in ENTITIES:
        for recogniser in recognisers()[entity]:
            seconds, returned = of_recogniser(recogniser, counted)
            each[recogniser.name] = each.get(recogniser.name, 0.0) + seconds
            if not returned:
                errors.append(recogniser.name)
    slowest = max(each, key=each.__getitem__)
    whole, returned = processor_s(lambda: inspect(text, MaskPolicy(entities=ENTITIES), AllowLists()))
    if not returned:
        errors.append("inspect")
    return Cost(sum(each.values()), slowest, each[slowest], whole, tuple(errors))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(UNITS), default=tuple(UNITS), metavar="NAME")
    parser.add_argument("--characters", nargs="+", type=int, default=CHARACTERS, metavar="N", help="lengths, rising")
    parser.add_argument("--seconds-min", type=float, default=0.0, help="show only units that cost more, per million")
    options = parser.parse_args()
    cost(repeated("warm up 1 ", 10_000))
    print("| unit | characters | recognisers s/M | slowest | slowest s/M | inspect s/M | growth | errors |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in options.only:
        before: tuple[int, float] | None = None
        for characters in options.characters:
            found = cost(repeated(UNITS[name], characters))
            scale = MILLION / characters
            growth = (found.inspect_s / before[1]) / (characters / before[0]) if before else None
            before = (characters, max(found.inspect_s, 1e-6))
            if found.inspect_s * scale >= options.seconds_min or found.errors:
                print(
                    f"| {name!a} | {characters:,} | {found.all_s * scale:.1f} | {found.slowest} "
                    f"| {found.slowest_s * scale:.1f} | {found.inspect_s * scale:.1f} "
                    f"| {'' if growth is None else f'{growth:.2f}'} | {', '.join(found.errors)} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
