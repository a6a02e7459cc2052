"""Passwords in conversations, away from their word: `the root pw? - its ...`, `a bad password, I changed mine to ...`.

The value holds a letter and a digit, and is no amount or time.
"""

from __future__ import annotations

from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from core.text.labelled import phrases
from core.text.recogniser import Hit
from core.text.recognisers.regions import around, matches_in
from core.text.recognisers.secret_values import placeholder, reference

SCORE = 0.75
CHARS_MIN = 5
CHARS = 240

_WORD = (
    r"(?<!\p{L})(?:pass(?:word|phrase|wd|code)?|pwd|pw|passwort|kennwort|mot[ ]de[ ]passe|mdp|contraseña|contrasena"
    r"|clave|wachtwoord|senha|palavra-passe|parola[ ]d['’]ordine|hasł[oa]|wifi[ -]?key)s?(?!\p{L})"
)
_CHANGED = (
    r"(?:changed|reset|switched|set|updated)[ ](?:mine|it|ours|that|hers|his|theirs|this)[ ](?:back[ ])?to"
    r"|(?:meines|meins|es|unseres|das)[ ](?:jetzt[ ])?(?:auf|in|zu)"
    r"|(?:changé|remplacé|modifié|mis)[ ](?:le[ ](?:mien|nôtre)|ça)?[ ]?(?:en|par|à)"
    r"|(?:cambi(?:é|ado|amos)|puse)[ ](?:la[ ](?:mía|nuestra)[ ])?(?:a|por)"
    r"|cambiat[oa][ ](?:la[ ](?:mia|nostra)[ ])?in|(?:de|het)[ ](?:mijne|onze)[ ](?:veranderd[ ])?(?:in|naar)"
    r"|(?:mudei|troquei|alterei)[ ](?:a[ ](?:minha|nossa)[ ])?para|(?:zmieni[łl]\w{1,4})[ ](?:(?:swoje|moje|je)[ ])?na"
)
_ITS = (
    r"(?:it['’]?s|it[ ]is|should[ ]be|das[ ]ist|es[ ]ist|ist|lautet|c['’]est|es|è|het[ ]is|is|é|to)(?:[ ](?:still|now"
    r"|noch|jetzt|toujours|sigue|ancora|nog|ainda|nadal))?"
)
_VALUE = r"[ ][\"'`“„«]?(?P<value>[^\s\"'`“”„«»<>]{5,64})"
# the answer to a question that unlocks an account, whatever it is
_ANSWER = regex.compile(
    r"(?<!\p{L})(?:(?:security|secret)[ ]question|sicherheitsfrage|question[ ](?:secrète|de[ ]sécurité)"
    r"|pregunta[ ](?:secreta|de[ ]seguridad)|domanda[ ](?:segreta|di[ ]sicurezza)|(?:beveiligings|geheime[ ])vraag"
    r"|pergunta[ ](?:secreta|de[ ]segurança)|pytanie[ ](?:pomocnicze|bezpieczeństwa"
    r"|zabezpieczające))[^\n]{0,80}?(?<!\p{L})"
    r"(?:answer|antwort|réponse|respuesta|risposta|antwoord|resposta|odpowiedź)[ ]?[:=][ ]?[\"'„“«]?"
    r"(?P<value>[\p{L}\d][^\n\"'“”»,;.]{1,40})",
    regex.IGNORECASE,
)
_ANSWER_WORDS = ("question", "frage", "pregunta", "domanda", "vraag", "pergunta", "pytanie")
_USER_AND_VALUE = regex.compile(
    r"(?<![\w/.-])(?:(?:admin(?:istrator)?|root|guest|gast|invité|invitado|ospite|convidado|gość|postgres|pi"
    r"|sa|sysadmin)"
    r"|(?:wi-?fi|wlan|ssid)(?:[ ]\p{L}{1,15}){0,4}?[ ]?(?:[:=]|is|ist|est|es|è|é|to)[ ]{1,2}[\w.-]{2,32})"
    r"[ ]/[ ](?P<value>[^\s\"'`“”„«»<>]{5,64})",
    regex.IGNORECASE,
)
_FORMS = (
    _USER_AND_VALUE,
    regex.compile(rf"{_WORD}[^\n]{{0,60}}?[ ](?:{_CHANGED}){_VALUE}", regex.IGNORECASE),
    regex.compile(
        rf"{_WORD}[^\n.!?]{{0,40}}(?:[?!.…,]|[ ][-–—]"
        rf"|(?=\n))[\s>*•–—-]{{1,4}}(?:\p{{L}}{{1,20}}(?:[ ]\d\d:\d\d)?[:>|]?[ ]){{0,2}}?(?:{_ITS}){_VALUE}",
        regex.IGNORECASE,
    ),
)
_LITERALS = phrases("pass|pwd|pw|kennwort|mdp|contrase|clave|wachtwoord|senha|parola|hasł|wifi| / ")
_AMOUNT = regex.compile(
    r"[\d.,:/%€$£+-]+(?:-?\p{L}{1,12})?"
    r"|(?:\p{L}{1,3}|version|release|level|step|phase|page|part)\d{1,4}"
)


def conversation_passwords(text: str, low: str) -> Iterator[Hit]:
    """Yield the passwords. `low`: the text in lower case, of equal length."""
    for match in matches_in(_ANSWER, text, around(low, _ANSWER_WORDS, before=20, after=CHARS)):
        yield Hit(match.start("value"), match.end("value"), SCORE)
    for pattern in _FORMS:
        for match in matches_in(pattern, text, around(low, _LITERALS, before=20, after=CHARS)):
            start, end = match.span("value")
            end = start + len(text[start:end].rstrip(".,;:)!?"))
            value = text[start:end]
            mixed = any(map(str.isdecimal, value)) and any(map(str.isalpha, value))
            other = _AMOUNT.fullmatch(value) or placeholder(value) or reference(value) or "://" in value or "=" in value
            if len(value) >= CHARS_MIN and mixed and not other:
                yield Hit(start, end, SCORE)
