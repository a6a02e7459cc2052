"""Secrets in the configuration of network devices, in commands, and in the code of a wireless network.

Forms: lines such as `enable secret 5 ...` and `snmp-server community ... RO`, `jdbc:oracle:thin:user/password@`,
`sqlplus user/password@`, keys and vectors of `openssl`, `-storepass` and similar flags, `WIFI:S:...;P:...;;`.
"""

from __future__ import annotations

from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from core.text.recogniser import Hit
from core.text.recognisers.credential_commands import Form, found
from core.text.recognisers.secret_values import placeholder

_VALUE = r"\"?(?P<value>[^\s\"';]{3,200})"
_HASH_KIND = r"(?:[ ]\d{1,2}(?=[ ]))?[ ]"
_QUOTED_OR_BARE = (
    r"(?:\"(?P<value>[^\"\n]{3,80})\"|'(?P<value>[^'\n]{3,80})'|(?P<value>[^\s\"'`$<>|;&-][^\s\"'`<>|;&]{2,80}))"
)


_FORMS = (
    Form(
        ("snmp-server", "-server", "key-string", "isakmp", "shared-key", "wpa-psk"),
        regex.compile(
            r"(?<![\w-])(?:snmp-server[ ](?:community|host[ ][\w.:]{1,60}(?:[ ]version[ ]\w{1,3})?)"
            r"|(?:tacacs|radius|ldap)-server[ ](?:host[ ][\w.:]{1,60}[ ])?key|key-string|isakmp[ ]key|wpa-psk[ ]ascii"
            rf"|pre-shared-key(?:[ ](?:ascii-text|local|remote|hexadecimal))?){_HASH_KIND}{_VALUE}",
            regex.IGNORECASE,
        ),
    ),
    Form(
        ("secret", "password"),
        regex.compile(
            r"(?<![\w-])(?:enable|(?:username|user|neighbor)[ ][\w.@:-]{1,60}(?:[ ]privilege[ ]\d{1,2})?)"
            rf"[ ](?:algorithm-type[ ]\w{{1,10}}[ ])?(?:secret|password){_HASH_KIND}{_VALUE}",
            regex.IGNORECASE,
        ),
        mixed=True,
    ),
    Form(
        ("jdbc:oracle", "sqlplus", "sqlldr", "expdp", "impdp", "rman"),
        regex.compile(
            r"(?<!\w)(?:jdbc:oracle:\w{1,8}:|(?:sqlplus|sqlldr|expdp|impdp|rman[ ]target)[ ](?:-\w{1,3}[ ]){0,3})"
            r"[\w$#.-]{1,40}/(?P<value>[^\s/@\"']{3,120})(?=@)",
            regex.IGNORECASE,
        ),
    ),
    Form(("-k ", "-iv ", "-s "), regex.compile(r"(?<!\S)-(?:K|iv|S)[ ](?P<value>[0-9A-Fa-f]{16,128})(?!\w)")),
)
_PASSWORDS = (
    Form(
        ("pass",),
        regex.compile(
            r"(?<!\S)--?(?:(?:src|dest|new)?(?:store|key)|trust-?store|key-?store|db|smtp|proxy|ks-?|p12|admin|user)"
            rf"-?pass(?:wd)?(?:[ ]{{1,2}}|[=:])(?:pass:)?{_QUOTED_OR_BARE}",
        ),
    ),
    Form(
        ("wifi:",),
        regex.compile(
            r"(?<!\w)WIFI:(?:[A-OQ-Z]\w{0,2}:(?:\\.|[^;\\\n]){0,64};){0,6}?P:(?P<value>(?:\\.|[^;\\\n]){3,64}+)(?=;)",
            regex.IGNORECASE,
        ),
    ),
)


def device_secrets(text: str, low: str) -> Iterator[Hit]:
    """Yield keys of devices, databases and ciphers. `low`: the text in lower case, of equal length."""
    return found(_FORMS, text, low, refused=placeholder)


def flag_passwords(text: str, low: str) -> Iterator[Hit]:
    """Yield passwords of flags and of wireless networks. `low`: the text in lower case, of equal length."""
    return found(_PASSWORDS, text, low, refused=placeholder)
