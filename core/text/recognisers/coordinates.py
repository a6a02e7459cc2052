"""COORDINATE: geographic positions that are precise to some hundred metres or better.

Forms: degrees with letters of the compass or named fields (from three decimals), degrees with minutes and seconds,
`geo:` addresses, the positions in links to maps, and two bare decimals. Two bare decimals also need a context word or
the form of a position: as many decimals in both, from four to eight, neither below one degree, and no third number
beside them. After a preposition of place, five to seven decimals suffice. A version, a ratio and a list of numbers are
none. The latitude lies within 90 degrees, the longitude within 180.
"""

from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from core.text.recogniser import Hit, Recogniser, context_of, matches, matches_in, merged, texts_of

_TEXTS = texts_of(__name__)

SCORE = 0.85
BARE_SCORE = 0.2
BARE_DECIMALS_MAX = 8
AROUND_CHARS = 80
PLACED_DECIMALS = range(5, 8)  # of a position after a preposition of place


_PATTERNS = tuple(regex.compile(pattern, regex.IGNORECASE) for pattern in _TEXTS["patterns"])
_PRECISE = regex.compile(r"\d[.,]\d{2}|[°º˚]|\d[ ]?d[ ]?\d|geo:", regex.IGNORECASE)
_BARE = regex.compile(
    r"(?<![\w.,+/−-])(?<!\d[,;][ ])(?P<lat>[+−-]?(?:[0-8]?\d|90)\.(?P<p>\d{4,15}))(?:,[ ]?|;[ ]?|[ ]|[ ]/[ ])"
    r"(?P<lon>[+−-]?(?:1[0-7]\d|0?\d?\d|180)\.(?P<q>\d{4,15}))(?!\w|\.\d|[,;][ ]?[+-]?\d|[ ][+-]?\d)"
)
_PREPOSITION = regex.compile(
    r"(?r)(?<!\w)(?:at|near|from|around|bei|nahe|von|à|près de|depuis|en|cerca de|desde|presso|vicino a|bij"
    r"|nabij|op|em|perto de|przy|koło|w pobliżu)[ ]\(?\Z",
    regex.IGNORECASE,
)
_CONTEXT = _TEXTS["context"]


def _coordinates(text: str) -> Iterator[Hit]:
    parts = merged(
        (max(0, found.start() - AROUND_CHARS), min(len(text), found.end() + AROUND_CHARS))
        for found in matches(_PRECISE, text)
    )
    for pattern in _PATTERNS:
        for match in matches_in(pattern, text, parts):
            start, end = match.span(match.lastgroup or 0)
            yield Hit(start, end, SCORE)
    for match in matches_in(_BARE, text, parts):
        first, second = abs(_number(match.group("lat"))), abs(_number(match.group("lon")))
        places = len(match.group("p")), len(match.group("q"))
        positioned = (
            places[0] == places[1] <= BARE_DECIMALS_MAX and min(first, second) >= 1 and max(first, second) >= 10
        )
        placed = (
            places[0] == places[1]
            and places[0] in PLACED_DECIMALS
            and max(first, second) >= 10
            and _PREPOSITION.search(text, max(0, match.start() - 16), match.start()) is not None
        )
        yield Hit(match.start(), match.end(), 0.5 if positioned or placed else BARE_SCORE)


def _number(text: str) -> float:
    return float(text.replace("−", "-"))


def recognisers() -> tuple[Recogniser, ...]:
    return (Recogniser("COORDINATE", _coordinates, context_of(_CONTEXT.split()), digits_min=4),)
