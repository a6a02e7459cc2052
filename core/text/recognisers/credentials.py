"""Passwords and keys in commands, configurations, pairs and tables, which `PASSWORD`, `SECRET` and `USERNAME` use.

* Commands, SQL statements, files of fixed form and calls of functions: `IDENTIFIED BY 'x'`, `~/.pgpass`,
  `htpasswd -b FILE USER x`, `lftp -u USER,x`, `net use ... /user:USER x`, `AUTH x`, `echo USER:x | chpasswd`,
  `ConvertTo-SecureString "x"`, `HTTPBasicAuth("USER", "x")`, `jwt.sign(claims, "x")`, `set("x", forKey: "token")`.
* Pairs of a user name and a password: `login: jdoe / hunter2`, `credentials admin:Secret123`.
* Rows with `|`, tabs, commas or semicolons between cells below a header such as `| Host | User | Password |`, and
  `INSERT INTO users (name, password) VALUES ('x', 'y')`. A row is read once, and a table ends at the first line of
  another number of cells.
* Configurations of network devices and flags: lines such as `enable secret 5 ...` and `snmp-server community ... RO`,
  `jdbc:oracle:thin:user/password@`, `sqlplus user/password@`, keys and vectors of `openssl`, `-storepass` and similar
  flags, `WIFI:S:...;P:...;;`.

Cost: linear in the text.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import regex  # type: ignore[import-untyped]

from core.text.labelled import phrases
from core.text.recogniser import REGEX_TIMEOUT_S, Hit, Span, around, matches_in
from core.text.recognisers.secret_values import placeholder, random_looking, reference

COMMAND_SCORE = 0.88
AROUND_CHARS = 400

_ARG = (
    r"(?:\"(?P<value>[^\"\n]{3,120})\"|'(?P<value>[^'\n]{3,120})'"
    r"|(?P<value>[^\s\"'`$<>|;&(){},-][^\s\"'`<>|;&]{2,120}))"
)
_TEXT = r"[@NLbru]?(?:\"(?P<value>[^\"\n]{3,120})\"|'(?P<value>[^'\n]{3,120})'|`(?P<value>[^`\n]{3,120})`)"
_WORD = r"[@NLbru]?(?:\"(?P<value>[^\s\"]{3,120})\"|'(?P<value>[^\s']{3,120})')"
_OTHER = r"(?:\"[^\"\n]{0,120}\"|'[^'\n]{0,120}'|[\w.:@$\[\]>-]{1,80})"


class SecretForm(NamedTuple):
    """`literals`: in lower case; every match of `pattern` lies near one. `mixed`: only values with a digit or a symbol
    count, because words may follow. `random`: only values that look random count. The group `value` is the password
    or the key."""

    literals: tuple[str, ...]
    pattern: regex.Pattern[str]
    mixed: bool = False
    random: bool = False


_COMMAND_PASSWORDS = (
    SecretForm(
        ("identified",),
        regex.compile(
            r"(?<!\w)IDENTIFIED[ ]{1,2}(?:WITH[ ]['\"`]?\w{1,40}['\"`]?[ ]{1,2})?(?:BY"
            r"|AS)[ ]{1,2}(?:PASSWORD[ ]|VALUES[ ])?"
            r"(?:\"(?P<value>[^\"\n]{3,120})\"|'(?P<value>[^'\n]{3,120})')",
            regex.IGNORECASE,
        ),
    ),
    SecretForm(
        ("identified",),
        regex.compile(
            r"(?<!\w)(?:USER|ROLE|TO)[ ]{1,2}\S{1,60}[ ]{1,2}IDENTIFIED[ ]{1,2}BY[ ]{1,2}"
            r"(?P<value>(?![&:$?%])[^\s\"';,()]{4,80})",
            regex.IGNORECASE,
        ),
    ),
    SecretForm(
        (":*:", ":5432:", ":5433:", ":6432:", ":5431:"),
        regex.compile(
            r"(?m)^[ \t]{0,8}[\w.*/-]{1,80}:(?:\d{1,5}|\*):[\w.*-]{1,60}:[\w.*@-]{1,60}:(?P<value>(?:[^\s:\\]"
            r"|\\.){3,100})$"
        ),
    ),
    SecretForm(
        ("htpasswd",),
        regex.compile(
            r"(?<!\w)htpasswd[ ](?:-[A-Za-z]{1,6}(?:[ ]\d{1,2})?[ ]){0,3}?"
            r"(?:-[mBdsp5c]{0,4}n[mBdsp5i]{0,4}b[mBdsp5]{0,4}"
            r"(?:[ ]-\w{1,3}(?:[ ]\d{1,2})?){0,3}[ ]|-[A-Za-z]{0,4}b[A-Za-z]{0,4}(?:[ ]-\w{1,3}(?:[ ]\d{1,2})?){0,3}"
            rf"[ ][\w./~-]{{1,120}}[ ])[\w.@-]{{1,60}}[ ]{_ARG}"
        ),
    ),
    SecretForm(
        ("lftp", "smbclient", "rpcclient", "smbmap", "mount", "credential"),
        regex.compile(
            r"(?<!\w)(?:lftp[^\n|;]{0,80}?[ ]-u[ ]\"?[\w.@-]{1,60},|(?:smbclient|rpcclient)[^\n"
            r"|;]{0,80}?[ ]-U[ ]['\"]?"
            r"[\w.@\\/-]{1,60}%|mount[^\n|;]{0,120}?[ ,](?:password|pass)=)(?P<value>[^\s\"',]{3,80})"
        ),
    ),
    SecretForm(
        ("/user:", "/u:", "/p:"),
        regex.compile(
            r"(?<!\w)(?:net[ ]use[ ][^\n]{1,120}?[ ]/user:[^\s/]{1,60}[ ](?!/)"
            r"|(?:xfreerdp|wfreerdp|mstsc|psexec|schtasks|wmic)[^\n|;]{0,160}?[ ]/p(?:ass(?:word)?)?:"
            r"|net[ ]use[ ](?:\w:[ ]"
            r"|\*[ ])?\\\\[^\s]{1,80}[ ](?=[^\s/*]{3,80}[ ]/user:))['\"]?(?P<value>[^\s\"']{3,80})",
            regex.IGNORECASE,
        ),
    ),
    SecretForm(
        ("net user", "useradd", "adduser"),
        regex.compile(
            r"(?<!\w)(?:net[ ]user[ ][\w.@-]{1,60}[ ]|user(?:add|mod)[ ][^\n|;]{0,80}?-p[ ])"
            r"['\"]?(?P<value>[^\s\"'/*$-][^\s\"']{3,80})",
            regex.IGNORECASE,
        ),
        mixed=True,
    ),
    SecretForm(
        ("auth",),
        regex.compile(
            r"(?m)^(?:[\w.:\[\]()-]{1,40}>[ ])?(?:AUTH"
            r"|HELLO[ ]3[ ]AUTH)[ ](?:[\w.-]{1,40}[ ])?(?P<value>[^\s\"']{4,128})[ ]{0,3}$"
        ),
        mixed=True,
    ),
    SecretForm(
        ("requirepass", "masterauth", "primaryauth"),
        regex.compile(rf"(?<!\w)(?:requirepass|masterauth|primaryauth)[ ]{{1,4}}{_ARG}", regex.IGNORECASE),
    ),
    SecretForm(
        ("chpasswd", "--stdin", "sudo -s", "passwd"),
        regex.compile(
            r"(?<!\w)(?:echo(?:[ ]-\w{1,2})?|printf)[ ]['\"]?(?:[\w.-]{1,40}:)?(?P<value>[^\s\"':|$][^\s\"'"
            r"|]{2,80}?)(?:\\n)?"
            r"['\"]?[ ]?\|[ ]?(?:sudo[ ](?:-S|[^\n|]{0,20}?chpasswd|[^\n|]{0,20}?passwd)|chpasswd"
            r"|passwd[ ][^\n|]{0,20}--stdin"
            r"|\w{1,20}[ ][^\n|]{0,60}?--?password-?stdin)"
        ),
    ),
    SecretForm(
        ("auth-user-pass",),
        regex.compile(r"auth-user-pass[ ]<\((?:printf|echo[ ]-e)[ ]['\"][\w.@%-]{1,60}\\n(?P<value>[^\s\\'\"]{3,80})"),
    ),
    SecretForm(
        ("securestring",),
        regex.compile(
            rf"(?<!\w)ConvertTo-SecureString(?:[ ]-(?:String|AsPlainText|Force)){{0,3}}[ ]{_TEXT}", regex.IGNORECASE
        ),
    ),
    SecretForm(
        ("pass:", "passphrase"),
        regex.compile(
            r"(?<!\S)(?:-pass(?:in|out)?[ ]['\"]?pass:(?P<value>[^\s\"'$]{3,80})"
            r"|--passphrase[ =]['\"](?P<value>[^\n\"'$]{3,80}))"
        ),
    ),
    SecretForm(
        ("ssh-keygen", "rclone", "snmp"),
        regex.compile(
            rf"(?<!\w)(?:ssh-keygen[^\n|;]{{0,120}}?[ ]-[NP][ ]|rclone[ ]obscure[ ]|snmp\w{{1,10}}[ ][^\n"
            rf"|;]{{0,120}}?[ ]-[AX][ ]){_ARG}"
        ),
    ),
    SecretForm(
        ("login ", "password "),
        regex.compile(
            r"(?<!\w)machine[ ][\w.:-]{1,80}\s{1,8}login[ ][\w.@+-]{1,80}\s{1,8}password[ ](?P<value>\S{3,100})"
        ),
    ),
    SecretForm(
        ("credential", "basicauth", "basic_auth", "passwordauth", "usernamepass", "login(", "authenticate(", "auth=("),
        regex.compile(
            r"(?:(?<!\w)(?:\w{0,20}Credentials?|HTTP(?:Basic|Digest)Auth|BasicAuth|basic_?auth|set_?basic_?auth"
            r"|PasswordAuthentication|UsernamePassword\w{0,30})\(|\.(?:login|authenticate)\(|(?<!\w)auth=\()"
            rf"\s{{0,12}}{_OTHER}\s{{0,4}},\s{{0,12}}{_WORD}(?=\s{{0,12}}[,)])",
            regex.IGNORECASE,
        ),
    ),
    SecretForm(
        ("pdo(", "mysqli", "getconnection", "mysql_connect"),
        regex.compile(
            r"(?<!\w)(?:PDO|mysqli(?:_connect)?|mysql_connect|getConnection)\("
            rf"\s{{0,12}}(?:{_OTHER}\s{{0,4}},\s{{0,12}}){{2}}{_TEXT}(?=\s{{0,12}}[,)])",
            regex.IGNORECASE,
        ),
    ),
    SecretForm(
        ("md5", "sha1", "sha2", "sha5", "crypt", "hash", "password("),
        regex.compile(
            r"(?<!\w)(?:(?:pass(?:word|wd)?|pwd)\w{0,10}[\"'`\]]?\s?=>?\s?[\w.\\:]{0,20}?"
            r"(?:md5|sha(?:1|2|256|512)|password|encrypt|crypt|hash)"
            rf"|(?:generate_password_hash|make_password|password_hash|hash_?pw|set_password))\(\s{{0,4}}{_TEXT}",
            regex.IGNORECASE,
        ),
    ),
    SecretForm(
        ("forkey", "key:", "key ="),
        regex.compile(
            r"(?<!\w)\w{1,20}\(\s{0,4}\"(?P<value>[^\"\n]{4,200})\",\s{0,4}(?:forKey|key|name)\s?[:=]\s?"
            r"[\"'][\w.-]{0,30}(?:pass(?:word|wd)|pwd)[\"']",
            regex.IGNORECASE,
        ),
    ),
)
_CALL_SECRETS = (
    SecretForm(
        ("forkey", "key:", "key ="),
        regex.compile(
            r"(?<!\w)\w{1,20}\(\s{0,4}\"(?P<value>[^\"\n]{8,2000})\",\s{0,4}(?:forKey|key|name)\s?[:=]\s?"
            r"[\"'][\w.-]{0,30}(?:token|secret|key)[\"']",
            regex.IGNORECASE,
        ),
        random=True,
    ),
    SecretForm(
        ("jwt", "hmac", "jsonwebtoken", "cookieparser", "cipher"),
        regex.compile(
            r"(?<!\w)(?:(?:jwt|jsonwebtoken|JWT)\.(?:sign|verify|encode|decode)\((?:[^\n\"']"
            r"|\"[^\"\n]{0,200}\"(?!\s?[,)])"
            r"|'[^'\n]{0,200}'(?!\s?[,)])){1,200}?,\s{0,8}|(?:createHmac|hash_hmac|createCipheriv|createDecipheriv)\("
            rf"\s{{0,4}}{_OTHER},\s{{0,4}}|hmac\.new\(\s{{0,4}}|cookieParser\(\s{{0,4}}){_TEXT}"
        ),
        random=True,
    ),
    SecretForm(
        ('"auth"', "'auth'", "auth:"),
        regex.compile(r"(?<![\w.-])[\"']?auth[\"']?[ ]?:[ ]?[\"'](?P<value>[A-Za-z0-9+/]{16,400}={0,2})[\"']"),
        random=True,
    ),
)
_DIGIT_OR_SIGN = regex.compile(r"[\d!@#$%^&*+=?~]")


def _in_forms(forms: tuple[SecretForm, ...], text: str, low: str, *, refused: Callable[[str], bool]) -> Iterator[Hit]:
    """Yield the values of these forms, without those that are `refused`."""
    for form in forms:
        for match in matches_in(
            form.pattern, text, around(low, form.literals, before=AROUND_CHARS, after=AROUND_CHARS)
        ):
            value = match.group("value")
            if refused(value):
                continue
            if (form.mixed and not _DIGIT_OR_SIGN.search(value)) or (form.random and not random_looking(value)):
                continue
            yield Hit(match.start("value"), match.end("value"), COMMAND_SCORE)


def _other_than_a_value(value: str) -> bool:
    return placeholder(value) or "://" in value or value.startswith(("$", "{")) or reference(value)


_PAIR = regex.compile(
    r"(?<!\p{L})(?:credentials?|creds?|login|log-in|logins|user(?:name)?[ ]?[/&][ ]?pass(?:word)?|zugangsdaten"
    r"|anmeldedaten|identifiants?|credenciales|credenziali|inloggegevens|credenciais|dane[ ]logowania|account)"
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


TABLE_SCORE = 0.85
LINE_CHARS = 2000
VALUE_CHARS_MIN = 4

_PASSWORD = regex.compile(
    r"(?:(?:\p{L}{1,12}[ _-])?(?:password|passwd|pwd|pw|pass|passphrase|passcode|passwort|kennwort"
    r"|mot[ ]de[ ]passe|mdp"
    r"|contraseña|contrasena|clave|parola[ ]d['’]ordine|wachtwoord|senha|palavra-passe|hasło|pin|puk))"
    r"(?:[ _-](?:plain|initial|temp|default|wifi))?",
    regex.IGNORECASE,
)
_SECRET = regex.compile(
    r"(?:\p{L}{1,12}[ _-]){0,2}(?:secret|token|api[ _-]?key|secret[ _-]?key|access[ _-]?key|private[ _-]?key)",
    regex.IGNORECASE,
)
_PASSWORD_WORDS = phrases("pass|pwd|pw|kennwort|mdp|contrase|clave|parola|wachtwoord|senha|hasło|pin|puk")
_SECRET_WORDS = ("secret", "token", "key")
_INSERT = regex.compile(
    r"INSERT[ ]INTO[ ][\w.\"`\[\]]{1,80}\s{0,4}\((?P<columns>[^()\n]{1,400})\)\s{0,4}VALUES\s{0,4}(?=\()",
    regex.IGNORECASE,
)
_ROW = regex.compile(r"\s{0,4},?\s{0,4}\((?P<row>(?:'(?:[^'\n]|'')*+'|[^'()\n])*+)\)")
_ITEM = regex.compile(r"\s*+(?:N?'(?P<value>(?:[^'\n]|'')*+)'|[^,'\n]*+)\s*+(?:,|$)")


def _in_tables(text: str, low: str, name: regex.Pattern[str], words: tuple[str, ...]) -> Iterator[Hit]:
    if "insert into" in low:
        yield from _inserted(text, low, name)
    done = 0
    for start, end in around(low, words, before=0, after=0):
        if start < done:
            continue
        left = text.rfind("\n", max(0, start - LINE_CHARS), start) + 1
        right = text.find("\n", end, end + LINE_CHARS)
        if right < 0 or right - left > LINE_CHARS:
            continue
        done = right
        for separator in "|\t,;":
            cells = _cells(text, left, right, separator)
            columns = [number for number, cell in enumerate(cells) if name.fullmatch(_plain(text, cell))]
            if len(cells) > 1 and columns:
                done, hits = _rows(text, right + 1, separator, len(cells), columns)
                yield from hits
                break


def _cells(text: str, left: int, right: int, separator: str) -> list[Span]:
    cells, at = [], left
    for part in text[left:right].split(separator):
        cells.append((at, at + len(part)))
        at += len(part) + 1
    return cells


def _plain(text: str, cell: Span) -> str:
    return text[slice(*cell)].strip(" *_`\"'\r")


def _rows(text: str, at: int, separator: str, count: int, columns: list[int]) -> tuple[int, list[Hit]]:
    """Return where the rows end, and the values of `columns` in them."""
    hits = []
    while at < len(text):
        right = text.find("\n", at, at + LINE_CHARS)
        right = min(len(text), at + LINE_CHARS) if right < 0 else right
        cells = _cells(text, at, right, separator)
        if len(cells) != count:
            break
        for column in columns:
            value = _plain(text, cells[column])
            if _is_value(value):
                start = text.index(value, *cells[column])
                hits.append(Hit(start, start + len(value), TABLE_SCORE))
        at = right + 1
    return at, hits


def _is_value(value: str) -> bool:
    plain = " " in value or not any(map(str.isalnum, value)) or value.replace("_", "").isalpha()
    return len(value) >= VALUE_CHARS_MIN and not plain and not placeholder(value) and not reference(value)


def _inserted(text: str, low: str, name: regex.Pattern[str]) -> Iterator[Hit]:
    for match in matches_in(_INSERT, text, around(low, ("insert into",), before=0, after=600)):
        names = [column.strip(" \"`[]'") for column in match.group("columns").split(",")]
        columns = {number for number, column in enumerate(names) if name.fullmatch(column)}
        at = match.end()
        while columns and (row := _ROW.match(text, at, at + LINE_CHARS, timeout=REGEX_TIMEOUT_S)):
            at, item = row.end(), row.start("row")
            for number in range(len(names)):
                found = _ITEM.match(text, item, row.end("row"), timeout=REGEX_TIMEOUT_S)
                if found is None or found.end() == item:
                    break
                item = found.end()
                value = found.group("value")
                if number in columns and value and len(value) >= VALUE_CHARS_MIN and not placeholder(value):
                    yield Hit(found.start("value"), found.end("value"), TABLE_SCORE)


_VALUE = r"\"?(?P<value>[^\s\"';]{3,200})"
_HASH_KIND = r"(?:[ ]\d{1,2}(?=[ ]))?[ ]"
_QUOTED_OR_BARE = (
    r"(?:\"(?P<value>[^\"\n]{3,80})\"|'(?P<value>[^'\n]{3,80})'|(?P<value>[^\s\"'`$<>|;&-][^\s\"'`<>|;&]{2,80}))"
)


_DEVICE_SECRETS = (
    SecretForm(
        ("snmp-server", "-server", "key-string", "isakmp", "shared-key", "wpa-psk"),
        regex.compile(
            r"(?<![\w-])(?:snmp-server[ ](?:community|host[ ][\w.:]{1,60}(?:[ ]version[ ]\w{1,3})?)"
            r"|(?:tacacs|radius|ldap)-server[ ](?:host[ ][\w.:]{1,60}[ ])?key|key-string|isakmp[ ]key|wpa-psk[ ]ascii"
            rf"|pre-shared-key(?:[ ](?:ascii-text|local|remote|hexadecimal))?){_HASH_KIND}{_VALUE}",
            regex.IGNORECASE,
        ),
    ),
    SecretForm(
        ("secret", "password"),
        regex.compile(
            r"(?<![\w-])(?:enable|(?:username|user|neighbor)[ ][\w.@:-]{1,60}(?:[ ]privilege[ ]\d{1,2})?)"
            rf"[ ](?:algorithm-type[ ]\w{{1,10}}[ ])?(?:secret|password){_HASH_KIND}{_VALUE}",
            regex.IGNORECASE,
        ),
        mixed=True,
    ),
    SecretForm(
        ("jdbc:oracle", "sqlplus", "sqlldr", "expdp", "impdp", "rman"),
        regex.compile(
            r"(?<!\w)(?:jdbc:oracle:\w{1,8}:|(?:sqlplus|sqlldr|expdp|impdp|rman[ ]target)[ ](?:-\w{1,3}[ ]){0,3})"
            r"[\w$#.-]{1,40}/(?P<value>[^\s/@\"']{3,120})(?=@)",
            regex.IGNORECASE,
        ),
    ),
    SecretForm(("-k ", "-iv ", "-s "), regex.compile(r"(?<!\S)-(?:K|iv|S)[ ](?P<value>[0-9A-Fa-f]{16,128})(?!\w)")),
)
_FLAG_PASSWORDS = (
    SecretForm(
        ("pass",),
        regex.compile(
            r"(?<!\S)--?(?:(?:src|dest|new)?(?:store|key)|trust-?store|key-?store|db|smtp|proxy|ks-?|p12|admin|user)"
            rf"-?pass(?:wd)?(?:[ ]{{1,2}}|[=:])(?:pass:)?{_QUOTED_OR_BARE}"
        ),
    ),
    SecretForm(
        ("wifi:",),
        regex.compile(
            r"(?<!\w)WIFI:(?:[A-OQ-Z]\w{0,2}:(?:\\.|[^;\\\n]){0,64};){0,6}?P:(?P<value>(?:\\.|[^;\\\n]){3,64}+)(?=;)",
            regex.IGNORECASE,
        ),
    ),
)


def written_passwords(text: str, low: str) -> Iterator[Hit]:
    """Yield the passwords of flags, wireless networks, commands, statements, calls and tables. `low`: the text in lower
    case, of equal length."""
    yield from _in_forms(_FLAG_PASSWORDS, text, low, refused=placeholder)
    yield from _in_forms(_COMMAND_PASSWORDS, text, low, refused=_other_than_a_value)
    yield from _in_tables(text, low, _PASSWORD, _PASSWORD_WORDS)


def written_secrets(text: str, low: str) -> Iterator[Hit]:
    """Yield the keys and tokens of devices, databases, ciphers, calls, files and tables. `low`: the text in lower case,
    of equal length."""
    yield from _in_forms(_DEVICE_SECRETS, text, low, refused=placeholder)
    yield from _in_forms(_CALL_SECRETS, text, low, refused=_other_than_a_value)
    yield from _in_tables(text, low, _SECRET, _SECRET_WORDS)
