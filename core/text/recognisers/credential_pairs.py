"""Pairs of a user name and a password: `login: jdoe / hunter2`, `credentials admin:Secret123`."""

from __future__ import annotations

from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from core.text.labelled import phrases
from core.text.recognisers.regions import Span, around, matches_in
from core.text.recognisers.secret_values import placeholder

_PAIR = regex.compile(
    r"(?<!\p{L})(?:credentials?|creds?|login|log-in|logins|user(?:name)?[ ]?[/&][ ]?pass(?:word)?|zugangsdaten"
    r"|anmeldedaten"
    r"|identifiants?|credenciales|credenziali|inloggegevens|credenciais|dane[ ]logowania|account)"
    r"(?:[ ]\p{L}{1,15}){0,4}?[ ]?(?:[:=]|is|are|sind|lauten|sont|son|sono|zijn|são|to)[ ]{1,2}"
    r"(?P<user>[\w.@+-]{2,64})(?:[ ]?[/:|][ ]?|[ ](?:and|with|und|et|y|e|en|i)[ ])(?P<value>[^\s\"'<>(),;]{4,64})",
    regex.IGNORECASE,
)
_WORDS = phrases(
    "credential|creds|login|log-in|user|zugangsdaten|anmeldedaten|identifiant|credencia|credenzia|"
    "inloggegevens|dane|account"
)
_MIXED = regex.compile(r"[\d!@#$%^&*+=?~]|\p{Ll}\p{Lu}")


def credential_pairs(text: str, low: str) -> Iterator[tuple[Span, Span]]:
    """Yield where the user name and the password of each pair are. `low`: the text in lower case, of equal length."""
    for match in matches_in(_PAIR, text, around(low, _WORDS, before=150, after=200)):
        start, end = match.span("value")
        end = start + len(text[start:end].rstrip(".,;:"))
        value = text[start:end]
        if value and _MIXED.search(value) and not placeholder(value) and "://" not in value:
            yield match.span("user"), (start, end)
