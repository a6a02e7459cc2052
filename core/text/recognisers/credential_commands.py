"""Passwords and keys in commands, SQL statements, files of fixed form, and calls of functions.

Forms: `IDENTIFIED BY 'x'`, `~/.pgpass`, `htpasswd -b FILE USER x`, `lftp -u USER,x`, `net use ... /user:USER x`,
`AUTH x`, `echo USER:x | chpasswd`, `ConvertTo-SecureString "x"`, `HTTPBasicAuth("USER", "x")`,
`jwt.sign(claims, "x")`, `set("x", forKey: "token")`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

from core.text.recogniser import Hit
from core.text.recognisers.regions import around, matches_in
from core.text.recognisers.secret_values import placeholder, random_looking, reference

SCORE = 0.88
AROUND_CHARS = 400

_ARG = (
    r"(?:\"(?P<value>[^\"\n]{3,120})\"|'(?P<value>[^'\n]{3,120})'"
    r"|(?P<value>[^\s\"'`$<>|;&(){},-][^\s\"'`<>|;&]{2,120}))"
)
_TEXT = r"[@NLbru]?(?:\"(?P<value>[^\"\n]{3,120})\"|'(?P<value>[^'\n]{3,120})'|`(?P<value>[^`\n]{3,120})`)"
_WORD = r"[@NLbru]?(?:\"(?P<value>[^\s\"]{3,120})\"|'(?P<value>[^\s']{3,120})')"
_OTHER = r"(?:\"[^\"\n]{0,120}\"|'[^'\n]{0,120}'|[\w.:@$\[\]>-]{1,80})"


class Form(NamedTuple):
    """`literals`: in lower case; every match of `pattern` lies near one. `mixed`: only values with a digit or a symbol
    count, because words may follow. `random`: only values that look random count. The group `value` is the password
    or the key."""

    literals: tuple[str, ...]
    pattern: regex.Pattern[str]
    mixed: bool = False
    random: bool = False


_PASSWORDS = (
    Form(
        ("identified",),
        regex.compile(
            r"(?<!\w)IDENTIFIED[ ]{1,2}(?:WITH[ ]['\"`]?\w{1,40}['\"`]?[ ]{1,2})?(?:BY"
            r"|AS)[ ]{1,2}(?:PASSWORD[ ]|VALUES[ ])?"
            r"(?:\"(?P<value>[^\"\n]{3,120})\"|'(?P<value>[^'\n]{3,120})')",
            regex.IGNORECASE,
        ),
    ),
    Form(
        ("identified",),
        regex.compile(
            r"(?<!\w)(?:USER|ROLE|TO)[ ]{1,2}\S{1,60}[ ]{1,2}IDENTIFIED[ ]{1,2}BY[ ]{1,2}"
            r"(?P<value>(?![&:$?%])[^\s\"';,()]{4,80})",
            regex.IGNORECASE,
        ),
    ),
    Form(
        (":*:", ":5432:", ":5433:", ":6432:", ":5431:"),
        regex.compile(
            r"(?m)^[ \t]{0,8}[\w.*/-]{1,80}:(?:\d{1,5}|\*):[\w.*-]{1,60}:[\w.*@-]{1,60}:(?P<value>(?:[^\s:\\]"
            r"|\\.){3,100})$"
        ),
    ),
    Form(
        ("htpasswd",),
        regex.compile(
            r"(?<!\w)htpasswd[ ](?:-[A-Za-z]{1,6}(?:[ ]\d{1,2})?[ ]){0,3}?"
            r"(?:-[mBdsp5c]{0,4}n[mBdsp5i]{0,4}b[mBdsp5]{0,4}"
            r"(?:[ ]-\w{1,3}(?:[ ]\d{1,2})?){0,3}[ ]|-[A-Za-z]{0,4}b[A-Za-z]{0,4}(?:[ ]-\w{1,3}(?:[ ]\d{1,2})?){0,3}"
            rf"[ ][\w./~-]{{1,120}}[ ])[\w.@-]{{1,60}}[ ]{_ARG}"
        ),
    ),
    Form(
        ("lftp", "smbclient", "rpcclient", "smbmap", "mount", "credential"),
        regex.compile(
            r"(?<!\w)(?:lftp[^\n|;]{0,80}?[ ]-u[ ]\"?[\w.@-]{1,60},|(?:smbclient|rpcclient)[^\n"
            r"|;]{0,80}?[ ]-U[ ]['\"]?"
            r"[\w.@\\/-]{1,60}%|mount[^\n|;]{0,120}?[ ,](?:password|pass)=)(?P<value>[^\s\"',]{3,80})"
        ),
    ),
    Form(
        ("/user:", "/u:", "/p:"),
        regex.compile(
            r"(?<!\w)(?:net[ ]use[ ][^\n]{1,120}?[ ]/user:[^\s/]{1,60}[ ](?!/)"
            r"|(?:xfreerdp|wfreerdp|mstsc|psexec|schtasks|wmic)[^\n|;]{0,160}?[ ]/p(?:ass(?:word)?)?:"
            r"|net[ ]use[ ](?:\w:[ ]"
            r"|\*[ ])?\\\\[^\s]{1,80}[ ](?=[^\s/*]{3,80}[ ]/user:))['\"]?(?P<value>[^\s\"']{3,80})",
            regex.IGNORECASE,
        ),
    ),
    Form(
        ("net user", "useradd", "adduser"),
        regex.compile(
            r"(?<!\w)(?:net[ ]user[ ][\w.@-]{1,60}[ ]|user(?:add|mod)[ ][^\n|;]{0,80}?-p[ ])"
            r"['\"]?(?P<value>[^\s\"'/*$-][^\s\"']{3,80})",
            regex.IGNORECASE,
        ),
        mixed=True,
    ),
    Form(
        ("auth",),
        regex.compile(
            r"(?m)^(?:[\w.:\[\]()-]{1,40}>[ ])?(?:AUTH"
            r"|HELLO[ ]3[ ]AUTH)[ ](?:[\w.-]{1,40}[ ])?(?P<value>[^\s\"']{4,128})[ ]{0,3}$"
        ),
        mixed=True,
    ),
    Form(
        ("requirepass", "masterauth", "primaryauth"),
        regex.compile(rf"(?<!\w)(?:requirepass|masterauth|primaryauth)[ ]{{1,4}}{_ARG}", regex.IGNORECASE),
    ),
    Form(
        ("chpasswd", "--stdin", "sudo -s", "passwd"),
        regex.compile(
            r"(?<!\w)(?:echo(?:[ ]-\w{1,2})?|printf)[ ]['\"]?(?:[\w.-]{1,40}:)?(?P<value>[^\s\"':|$][^\s\"'"
            r"|]{2,80}?)(?:\\n)?"
            r"['\"]?[ ]?\|[ ]?(?:sudo[ ](?:-S|[^\n|]{0,20}?chpasswd|[^\n|]{0,20}?passwd)|chpasswd"
            r"|passwd[ ][^\n|]{0,20}--stdin"
            r"|\w{1,20}[ ][^\n|]{0,60}?--?password-?stdin)"
        ),
    ),
    Form(
        ("auth-user-pass",),
        regex.compile(r"auth-user-pass[ ]<\((?:printf|echo[ ]-e)[ ]['\"][\w.@%-]{1,60}\\n(?P<value>[^\s\\'\"]{3,80})"),
    ),
    Form(
        ("securestring",),
        regex.compile(
            rf"(?<!\w)ConvertTo-SecureString(?:[ ]-(?:String|AsPlainText|Force)){{0,3}}[ ]{_TEXT}", regex.IGNORECASE
        ),
    ),
    Form(
        ("pass:", "passphrase"),
        regex.compile(
            r"(?<!\S)(?:-pass(?:in|out)?[ ]['\"]?pass:(?P<value>[^\s\"'$]{3,80})"
            r"|--passphrase[ =]['\"](?P<value>[^\n\"'$]{3,80}))"
        ),
    ),
    Form(
        ("ssh-keygen", "rclone", "snmp"),
        regex.compile(
            rf"(?<!\w)(?:ssh-keygen[^\n|;]{{0,120}}?[ ]-[NP][ ]|rclone[ ]obscure[ ]|snmp\w{{1,10}}[ ][^\n"
            rf"|;]{{0,120}}?[ ]-[AX][ ]){_ARG}"
        ),
    ),
    Form(
        ("login ", "password "),
        regex.compile(
            r"(?<!\w)machine[ ][\w.:-]{1,80}\s{1,8}login[ ][\w.@+-]{1,80}\s{1,8}password[ ](?P<value>\S{3,100})"
        ),
    ),
    Form(
        ("credential", "basicauth", "basic_auth", "passwordauth", "usernamepass", "login(", "authenticate(", "auth=("),
        regex.compile(
            r"(?:(?<!\w)(?:\w{0,20}Credentials?|HTTP(?:Basic|Digest)Auth|BasicAuth|basic_?auth|set_?basic_?auth"
            r"|PasswordAuthentication|UsernamePassword\w{0,30})\(|\.(?:login|authenticate)\(|(?<!\w)auth=\()"
            rf"\s{{0,12}}{_OTHER}\s{{0,4}},\s{{0,12}}{_WORD}(?=\s{{0,12}}[,)])",
            regex.IGNORECASE,
        ),
    ),
    Form(
        ("pdo(", "mysqli", "getconnection", "mysql_connect"),
        regex.compile(
            r"(?<!\w)(?:PDO|mysqli(?:_connect)?|mysql_connect|getConnection)\("
            rf"\s{{0,12}}(?:{_OTHER}\s{{0,4}},\s{{0,12}}){{2}}{_TEXT}(?=\s{{0,12}}[,)])",
            regex.IGNORECASE,
        ),
    ),
    Form(
        ("md5", "sha1", "sha2", "sha5", "crypt", "hash", "password("),
        regex.compile(
            r"(?<!\w)(?:(?:pass(?:word|wd)?|pwd)\w{0,10}[\"'`\]]?\s?=>?\s?[\w.\\:]{0,20}?"
            r"(?:md5|sha(?:1|2|256|512)|password|encrypt|crypt|hash)"
            rf"|(?:generate_password_hash|make_password|password_hash|hash_?pw|set_password))\(\s{{0,4}}{_TEXT}",
            regex.IGNORECASE,
        ),
    ),
    Form(
        ("forkey", "key:", "key ="),
        regex.compile(
            r"(?<!\w)\w{1,20}\(\s{0,4}\"(?P<value>[^\"\n]{4,200})\",\s{0,4}(?:forKey|key|name)\s?[:=]\s?"
            r"[\"'][\w.-]{0,30}(?:pass(?:word|wd)|pwd)[\"']",
            regex.IGNORECASE,
        ),
    ),
)
_SECRETS = (
    Form(
        ("forkey", "key:", "key ="),
        regex.compile(
            r"(?<!\w)\w{1,20}\(\s{0,4}\"(?P<value>[^\"\n]{8,2000})\",\s{0,4}(?:forKey|key|name)\s?[:=]\s?"
            r"[\"'][\w.-]{0,30}(?:token|secret|key)[\"']",
            regex.IGNORECASE,
        ),
        random=True,
    ),
    Form(
        ("jwt", "hmac", "jsonwebtoken", "cookieparser", "cipher"),
        regex.compile(
            r"(?<!\w)(?:(?:jwt|jsonwebtoken|JWT)\.(?:sign|verify|encode|decode)\((?:[^\n\"']"
            r"|\"[^\"\n]{0,200}\"(?!\s?[,)])"
            r"|'[^'\n]{0,200}'(?!\s?[,)])){1,200}?,\s{0,8}|(?:createHmac|hash_hmac|createCipheriv|createDecipheriv)\("
            rf"\s{{0,4}}{_OTHER},\s{{0,4}}|hmac\.new\(\s{{0,4}}|cookieParser\(\s{{0,4}}){_TEXT}"
        ),
        random=True,
    ),
    Form(
        ('"auth"', "'auth'", "auth:"),
        regex.compile(r"(?<![\w.-])[\"']?auth[\"']?[ ]?:[ ]?[\"'](?P<value>[A-Za-z0-9+/]{16,400}={0,2})[\"']"),
        random=True,
    ),
)
_MIXED = regex.compile(r"[\d!@#$%^&*+=?~]")


def command_passwords(text: str, low: str) -> Iterator[Hit]:
    """Yield passwords of commands, statements and calls. `low`: the text in lower case, of equal length."""
    return found(_PASSWORDS, text, low, refused=_other_than_a_value)


def call_secrets(text: str, low: str) -> Iterator[Hit]:
    """Yield keys and tokens that a call or a file holds. `low`: the text in lower case, of equal length."""
    return found(_SECRETS, text, low, refused=_other_than_a_value)


def found(forms: tuple[Form, ...], text: str, low: str, *, refused: Callable[[str], bool]) -> Iterator[Hit]:
    """The values of these forms, without those that are `refused`."""
    for form in forms:
        for match in matches_in(
            form.pattern, text, around(low, form.literals, before=AROUND_CHARS, after=AROUND_CHARS)
        ):
            value = match.group("value")
            if refused(value):
                continue
            if (form.mixed and not _MIXED.search(value)) or (form.random and not random_looking(value)):
                continue
            yield Hit(match.start("value"), match.end("value"), SCORE)


def _other_than_a_value(value: str) -> bool:
    return placeholder(value) or "://" in value or value.startswith(("$", "{")) or reference(value)
