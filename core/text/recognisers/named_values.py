"""Values that follow a name: `api_key = "..."`, `"token": "..."`, `--password ...`, `the password is ...`.

A name is found by the caller's pattern. What may stand between it and its value is the same for every name: an end of
the name (`API_KEY_2`), quotes and brackets, a type, an assignment, a colon, a word such as `is`, a tag's end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

from core.text.recogniser import REGEX_TIMEOUT_S
from core.text.recognisers.regions import around, lower, matches_in

NAME_CHARS_MAX = 50
LONG_CHARS = 300

_SUFFIX = regex.compile(r"(?:[A-Z0-9_-][A-Za-z0-9_-]{0,30}+)?")
CHANGED = (
    r"(?:(?:was|is|has[ ]been|will[ ]be)[ ](?:now[ ])?(?:changed|set|reset|updated)[ ]to|(?:is|was)[ ]now"
    r"|ist[ ]jetzt|est[ ](?:maintenant|désormais)|es[ ]ahora|è[ ](?:ora|adesso)|is[ ]nu|é[ ]agora|to[ ]teraz"
    r"|wurde[ ]auf|(?:a[ ]été|est)[ ](?:changé|remplacé|modifié)e?[ ](?:en|par)"
    r"|(?:ha[ ]sido|fue|se)[ ](?:cambiad[oa]|cambió)[ ](?:a|por)"
    r"|è[ ]stat[ao][ ](?:cambiat|impostat)[ao][ ](?:in|su)|is[ ](?:gewijzigd|veranderd)[ ](?:in|naar)"
    r"|foi[ ](?:alterad|mudad)[oa][ ]para|został[oay]?[ ]zmienion[eay][ ]na)"
)
IS = (
    r"is|was|are|equals|remains|set[ ]to|changed[ ]to|reset[ ]to|now|lautet(?:e)?|ist|war|heißt|geändert[ ]auf|est"
    r"|était|es|era|sigue[ ]siendo"
    r"|è|e'|era|sarà|é|foi|to|jest|brzmi|brzmiało|będzie|zmienione[ ]na|luidt|wordt|(?:gewijzigd|veranderd)[ ]in"
    r"|invece|c['’]est|should[ ]be|will[ ]be|->|→"
)
# functions that turn the text of a key into bytes
DECODERS = r"from_?hex|unhex(?:lify)?|(?:base?64_?)?decode(?:_?string|_?bytes)?|\.from|atob|a2b_(?:hex|base64)"
DECODERS += r"|md5|sha(?:1|2|224|256|384|512)|(?:old_)?password|encrypt|crypt|hash_?pw|(?:make|hash)_?password"
DECODERS += r"|password_hash"
_BETWEEN = regex.compile(
    rf"""
    (?:
        [\"'`\])*_]{{0,3}}                                             # end of the name
        (?:\s{{0,2}}:\s{{0,2}}[&*]?[A-Za-z_][\w.\[\]|, ]{{0,30}}?(?=\s{{0,3}}=[ ]{{0,2}}[^\s=]))?   # a type
        (?P<operator>\s{{0,20}}(?::=|=>|->|→|===?|!=|<=|\|\|=|&&=|\?\?=|\?=|=|:|：)\s{{0,8}}(?:[>|][-+]?\s{{1,12}})?
          (?:(?:(?:[A-Za-z_][\w.:]{{0,30}}?)?(?i:{DECODERS})|\[\]byte)\(\s{{0,8}}(?=[rb]?[\"'`]))?)
      | \\?[\"'`]\s{{0,3}}[,)]\s{{0,8}}(?:value[ ]?=[ ]?)?(?=[\"'`])      # header("X-Api-Key", "value")
      | [\"'](?:[ ]type=[\"']\w{{1,10}}[\"'])?[ ]{{1,3}}(?:value|content|default)[ ]?=[ ]?(?=[\"'])
      | [\"']\s{{0,2}}\{{\s{{0,12}}(?:(?:type|description|sensitive|nullable)[ ]{{0,12}}=[^\n]{{1,100}}
          \n\s{{0,12}}){{0,3}}(?:default|value)\s{{0,4}}=\s{{0,4}}(?=[\"'])
      | (?P<tag>[ ]{{0,2}}>)
      | (?P<cell>\*{{0,2}}[ ]{{0,20}}\|[ ]{{0,20}}|\t)
      | (?P<word>(?:[ ]\([^()\n]{{1,40}}\))?(?:[ ][\p{{L}}'’/][\p{{L}}\p{{M}}\d'’./_-]{{0,24}}){{0,7}}?
          (?:(?:[ ](?:{CHANGED}|{IS})|['’]s)[:]?[ ]{{1,2}}|[ ]{{0,2}}[:=][ ]{{0,3}}))
      | (?P<gap>[ ]{{1,3}})
    )
    (?:(?:[rbfRBFN@]{{1,2}}(?=[\"'])|\\?(?=[\"'])))?
    """,
    regex.VERBOSE,
)
_QUOTED = regex.compile(
    r"\\?(?P<quote>\"\"\"|[\"'`„“»«‘’”])(?P<value>[^\"'`\n“”„«»\\]{1,500}+(?:\\"
    r"(?![\"'])[^\"'`\n“”\\]{1,200}+){0,4})\\?[\"'`“”«»’]"
)
_BARE = regex.compile(r"(?:(?:[Bb]earer|[Bb]asic|[Tt]oken)[ ])?(?P<value>[^\s\"'`<>(){}\[\],;|&„“”«»]{1,500}+)")
_TRAILING = ".,;:"


class NamedValue(NamedTuple):
    """`start:end` of `value`. `suffix`: the end of the name. `quoted`: the value is in quotes. `joint`: what is between
    name and value: `operator`, `tag`, `cell`, `word`, `gap` (a space), `call`."""

    start: int
    end: int
    value: str
    suffix: str
    quoted: bool
    joint: str
    name_start: int


class Name(NamedTuple):
    """`literals`: in lower case. Every match of `pattern` holds one, and lies within `NAME_CHARS_MAX` characters."""

    pattern: regex.Pattern[str]
    literals: tuple[str, ...]


def named_values(text: str, name: Name, bare: regex.Pattern[str] = _BARE) -> Iterator[NamedValue]:
    """Yield what follows each match of `name`. `bare`: what a value without quotes is; its group is `value`."""
    parts = around(lower(text), name.literals, before=NAME_CHARS_MAX, after=NAME_CHARS_MAX)
    done = 0
    for match in matches_in(name.pattern, text, parts):
        if match.start() < done:
            continue  # inside a long value: a hostile text would hold a name at every few characters
        suffix = _SUFFIX.match(text, match.end())
        between = _BETWEEN.match(text, suffix.end(), timeout=REGEX_TIMEOUT_S)
        if between is None:
            continue
        joint = between.lastgroup or "call"
        quoted = _QUOTED.match(text, between.end(), timeout=REGEX_TIMEOUT_S)
        found = quoted or bare.match(text, between.end(), timeout=REGEX_TIMEOUT_S)
        if found is None:
            continue
        start, end = found.span("value")
        if not quoted:
            end = _trimmed(text, start, end)
            done = end if end - start >= LONG_CHARS else done
        if start < end:
            yield NamedValue(start, end, text[start:end], suffix.group(), bool(quoted), joint, match.start())


def _trimmed(text: str, start: int, end: int) -> int:
    """Return the end of a value without punctuation of the sentence around it."""
    while end > start and (
        text[end - 1] in _TRAILING
        or any(text[end - 1] == shut and opening not in text[start:end] for opening, shut in ("()", "[]", "{}"))
    ):
        end -= 1
    return end
