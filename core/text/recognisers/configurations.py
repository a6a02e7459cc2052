"""Secrets in the configuration of network devices, in commands, and in the code of a wireless network.

Forms: lines such as `enable secret 5 ...` and `snmp-server community ... RO`, `jdbc:oracle:thin:user/password@`,
`sqlplus user/password@`, keys and vectors of `openssl`, `-storepass` and similar flags, `WIFI:S:...;P:...;;`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

from core.text.recogniser import Hit
from core.text.recognisers.regions import around, matches_in
from core.text.recognisers.secret_values import placeholder

SCORE = 0.88
AROUND_CHARS = 400

_VALUE = r"\"?(?P<value>[^\s\"';]{3,200})"
_HASH_KIND = r"(?:[ ]\d{1,2}(?=[ ]))?[ ]"
_QUOTED_OR_BARE = (
    r"(?:\"(?P<value>[^\"\n]{3,80})\"|'(?P<value>[^'\n]{3,80})'|(?P<value>[^\s\"'`$<>|;&-][^\s\"'`<>|;&]{2,80}))"
)


class _Form(NamedTuple):
    """`literals`: in lower case; every match of `pattern` lies near one. `mixed`: only values with a digit or a symbol
    count, because words may follow. The group `value` is the secret."""

    literals: tuple[str, ...]
    pattern: regex.Pattern[str]
    mixed: bool = False


_FORMS = (
    _Form(
        ("snmp-server", "-server", "key-string", "isakmp", "shared-key", "wpa-psk"),
        regex.compile(
            r"(?<![\w-])(?:snmp-server[ ](?:community|host[ ][\w.:]{1,60}(?:[ ]version[ ]\w{1,3})?)"
            r"|(?:tacacs|radius|ldap)-server[ ](?:host[ ][\w.:]{1,60}[ ])?key|key-string|isakmp[ ]key|wpa-psk[ ]ascii"
            rf"|pre-shared-key(?:[ ](?:ascii-text|local|remote|hexadecimal))?){_HASH_KIND}{_VALUE}",
            regex.IGNORECASE,
        ),
    ),
    _Form(
        ("secret", "password"),
        regex.compile(
            r"(?<![\w-])(?:enable|(?:username|user|neighbor)[ ][\w.@:-]{1,60}(?:[ ]privilege[ ]\d{1,2})?)"
            rf"[ ](?:algorithm-type[ ]\w{{1,10}}[ ])?(?:secret|password){_HASH_KIND}{_VALUE}",
            regex.IGNORECASE,
        ),
        mixed=True,
    ),
    _Form(
        ("jdbc:oracle", "sqlplus", "sqlldr", "expdp", "impdp", "rman"),
        regex.compile(
            r"(?<!\w)(?:jdbc:oracle:\w{1,8}:|(?:sqlplus|sqlldr|expdp|impdp|rman[ ]target)[ ](?:-\w{1,3}[ ]){0,3})"
            r"[\w$#.-]{1,40}/(?P<value>[^\s/@\"']{3,120})(?=@)",
            regex.IGNORECASE,
        ),
    ),
    _Form(("-k ", "-iv ", "-s "), regex.compile(r"(?<!\S)-(?:K|iv|S)[ ](?P<value>[0-9A-Fa-f]{16,128})(?!\w)")),
)
_PASSWORDS = (
    _Form(
        ("pass",),
        regex.compile(
            r"(?<!\S)--?(?:(?:src|dest|new)?(?:store|key)|trust-?store|key-?store|db|smtp|proxy|ks-?|p12|admin|user)"
            rf"-?pass(?:wd)?(?:[ ]{{1,2}}|[=:])(?:pass:)?{_QUOTED_OR_BARE}",
        ),
    ),
    _Form(
        ("wifi:",),
        regex.compile(
            r"(?<!\w)WIFI:(?:[A-OQ-Z]\w{0,2}:(?:\\.|[^;\\\n]){0,64};){0,6}?P:(?P<value>(?:\\.|[^;\\\n]){3,64}+)(?=;)",
            regex.IGNORECASE,
        ),
    ),
)
_MIXED = regex.compile(r"[\d!@#$%^&*+=?~]")


def device_secrets(text: str, low: str) -> Iterator[Hit]:
    """Yield keys of devices, databases and ciphers. `low`: the text in lower case, of equal length."""
    return _found(_FORMS, text, low)


def flag_passwords(text: str, low: str) -> Iterator[Hit]:
    """Yield passwords of flags and of wireless networks. `low`: the text in lower case, of equal length."""
    return _found(_PASSWORDS, text, low)


def _found(forms: tuple[_Form, ...], text: str, low: str) -> Iterator[Hit]:
    for form in forms:
        for match in matches_in(
            form.pattern, text, around(low, form.literals, before=AROUND_CHARS, after=AROUND_CHARS)
        ):
            value = match.group("value")
            if not placeholder(value) and (not form.mixed or _MIXED.search(value)):
                yield Hit(match.start("value"), match.end("value"), SCORE)
