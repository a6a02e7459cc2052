"""AGE: ages over 89, which the HIPAA Safe Harbor rule removes, in eight languages.

A hit is the number with its unit (`93-year-old`, `92 ans`). A duration (`for 92 years`) and a percentage are none: the
number needs a word of age before it, or a unit that only ages have after it.
"""

from __future__ import annotations

from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from core.text.recogniser import Hit, Recogniser, matches
from core.text.recognisers.regions import matches_in, merged

SCORE = 0.8
AROUND_CHARS = 40

_NUMBER = r"(?<![\d.,/:$€£-])(?:9\d|1[0-2]\d)(?![\d]|[.,:/]\d|[ ]?[%°€$])"
_TENS = (
    r"(?:ninety(?:[ -](?:one|two|three|four|five|six|seven|eight|nine))?|(?:one|a)[ ]hundred(?:[ ]and[ ](?:one|two"
    r"|three|four|five|six|seven|eight|nine|ten))?)"
)
_PATTERNS = (
    # units of ages alone
    rf"(?:{_NUMBER}|(?<!\p{{L}}){_TENS})(?:[ -]?(?:years?|yrs?)[ -]?(?:old|of[ ]age|young)s?|[ ]?(?:y/?o|yo|y\.o\.)"
    rf"(?!\p{{L}}))",
    rf"{_NUMBER}(?:[ -]?jährig(?:e[rnsm]?)?|[ ]Jahre[ ](?:alt|jung)|[ ]?J\.[ ]alt)",
    rf"{_NUMBER}[ ]ans[ ](?:révolus|d['’]âge)",
    rf"{_NUMBER}[ ]años[ ]de[ ]edad",
    rf"{_NUMBER}[ ]?(?:-?enne|[ ]anni[ ](?:di[ ]età|d['’]età|compiuti))",
    rf"{_NUMBER}(?:[ -]?jarigen?|[ ]jaar[ ](?:oud|jong)|[ ]lentes)",
    rf"{_NUMBER}[ ]anos[ ]de[ ]idade",
    rf"{_NUMBER}(?:[ -]?letni(?:a|ego|ej|emu|m|ch|mi)?|[ -]?lat(?:ek|ka|kowie|kę|ki|ków))",
    # a person reaches an age
    r"(?<!\p{L})(?:she|he|who|\p{L}{0,15}(?:father|mother|aunt|uncle|man|woman|lady|widow|widower|patient"
    r"|resident|sister"
    r"|brother|grandpa|grandma|granny|dad|mum|mom))[ ](?:(?:has|had|just|will|who|recently|nearly|almost)[ ]){0,2}"
    rf"(?:reach(?:ed|es)?|celebrate[sd]?(?:[ ](?:her|his))?)[ ](?P<l>{_NUMBER}(?:st|nd|rd|th)?)"
    r"(?![ ](?:points?|degrees|miles|metres|meters|goals|runs|per|percent|km|kg|votes|people|members))",
    # a word of age before the number
    rf"(?<!\p{{L}})(?:aged|age|ages|age[ ]of|aged[ ]about|turned|turns|turning)(?:[\"']?[ ]?[:=][ ]?|[ ](?:is|was|at"
    rf"|over|about|around)?[ ]?)(?P<a>{_NUMBER}(?:[ ](?:years?|yrs?))?)",
    rf"(?<!\p{{L}})(?:Alter|Alter[ ]von|Lebensalter)(?:[ ]?[:=][ ]?|[ ](?:ist|war)?[ ]?)(?P<b>{_NUMBER}"
    rf"(?:[ ]Jahren?)?)",
    rf"(?<!\p{{L}})(?:âgée?s?[ ](?:de|d['’]environ)|l['’]âge[ ]de|âge[ ]?[:=]|(?:a|avait|ai|aura|eut|fêté[ ]ses"
    rf"|fête[ ]ses|femme[ ]de|homme[ ]de|patient[e]?[ ]de|mère[ ]de|père[ ]de|dame[ ]de|,))[ ](?P<c>{_NUMBER}"
    rf"(?:[ ]ans)?)(?=(?<=ans)|(?<=âge.{{0,12}}))",
    rf"(?<!\p{{L}})(?:edad(?:[ ]?[:=]|[ ]de)|tiene|tenía|tengo|cumplió|cumple|de|,)[ ](?P<d>{_NUMBER}(?:[ ]años))",
    rf"(?<!\p{{L}})(?:edad)[ ]?[:=][ ]?(?P<e>{_NUMBER})",
    rf"(?<!\p{{L}})(?:ha|aveva|ho|hai|compiuto|compie|di|,)[ ](?P<f>{_NUMBER}[ ]anni)",
    rf"(?<!\p{{L}})(?:età|leeftijd|idade|wiek|âge)(?:[ ]?[:=][ ]?|[ ](?:van|di|de)[ ])(?P<g>{_NUMBER}(?:[ ](?:anni"
    rf"|jaar|anos|lat|ans|lata))?)",
    rf"(?<!\p{{L}})(?:is|was|werd|wordt|van|,)[ ](?P<h>{_NUMBER}[ ]jaar(?![ ](?:geleden|cel|later|na)))",
    rf"(?<!\p{{L}})(?:tem|tinha|tenho|com|completou|fez|faz|de|,)[ ](?P<i>{_NUMBER}[ ]anos(?![ ](?:atrás|depois"
    rf"|antes)))",
    rf"(?<!\p{{L}})(?:ma|mam|miał|miała|mając|skończył|skończyła|ukończył|ukończyła|kończy|wieku|wiek:|,)[ ]"
    rf"(?P<j>{_NUMBER}[ ]lata?(?![ ](?:temu|później)))",
    rf"(?<!\p{{L}})(?:lat)[ ](?P<k>{_NUMBER})(?=[,.; )]|$)",
)
_HIGH = regex.compile(r"(?<!\d)(?:9\d|1[0-2]\d)(?!\d)|ninety|hundred", regex.IGNORECASE)
_COMPILED = tuple(regex.compile(pattern, regex.IGNORECASE) for pattern in _PATTERNS)


def _ages(text: str) -> Iterator[Hit]:
    parts = merged(
        (max(0, found.start() - AROUND_CHARS), min(len(text), found.end() + AROUND_CHARS))
        for found in matches(_HIGH, text)
    )
    for pattern in _COMPILED:
        for match in matches_in(pattern, text, parts):
            start, end = match.span(match.lastgroup or 0)
            yield Hit(start, end, SCORE)


def recognisers() -> tuple[Recogniser, ...]:
    return (Recogniser("AGE", _ages),)
