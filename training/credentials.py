"""Invented passwords, keys, user names and the machine values beside them, for training the entity tagger.

None of them was ever in use. The forms are those of people (a word with a year, a row of keys, several words) and of
machines (prefixes of well-known services, hexadecimal digits, Base64, groups of letters).
"""

import random
import re
import string
import uuid
from collections.abc import Sequence

_LETTERS, _DIGITS = string.ascii_letters, string.digits
_HEX = "0123456789abcdef"
_BASE64 = _LETTERS + _DIGITS + "+/"
_URL_SAFE = _LETTERS + _DIGITS + "-_"
_MARKS = "!?#$%&*+-_=.@^~"
_NUMERIC = re.compile(
    r"(?i)\b(?:pin|puk|code|codes|kod|kodem|kodu|código|codigo|codice|cijfercode|passcode|otp|tan|combination)\b"
)
_IN_URL = re.compile(r"://\S*$")
_NEAR = 40  # characters before a password that say what kind it is
_ROWS = (
    *("qwerty", "qwertz", "azerty", "asdfgh", "asdf", "zxcvbn", "yxcvbn", "123456", "12345", "1q2w3e4r", "qazwsx"),
    *("abc123", "654321", "111111", "1qaz2wsx", "letmein", "changeme", "admin", "root", "welcome", "secret", "test"),
)
_PREFIXES = (
    *("sk_live_", "sk_test_", "pk_live_", "rk_live_", "whsec_", "ghp_", "gho_", "github_pat_", "glpat-", "xoxb-"),
    *("xoxp-", "xapp-", "AKIA", "ASIA", "AIza", "ya29.", "hf_", "npm_", "pypi-", "SG.", "key-", "sk-", "sk-ant-"),
    *("dop_v1_", "shpat_", "EAAC", "eyJhbGciOi", "dckr_pat_", "lin_api_", "rg_", "hvs.", "s.", "tok_", "api-", "live_"),
)
_ACCOUNTS = (
    *("admin", "root", "postgres", "deploy", "backup", "svc-backup", "svc_report", "jenkins", "www-data", "ubuntu"),
    *("app", "appuser", "dbuser", "readonly", "support", "ec2-user", "oracle", "sa", "guest", "ci-bot", "monitoring"),
)
_DOMAINS = ("example.com", "example.org", "internal", "local", "corp.example", "svc.cluster.local", "lan", "intranet")
_HOSTS = ("db", "mail", "api", "cache", "web", "smtp", "vpn", "git", "registry", "auth", "files", "queue", "search")
_FOLDERS = (
    "etc",
    "var",
    "opt",
    "srv",
    "home",
    "usr",
    "app",
    "data",
    "config",
    "lib",
    "tmp",
    "secrets",
    "backup",
    "src",
)
_ENDS = ("yml", "conf", "json", "env", "log", "py", "key", "pem", "txt", "sh", "sql", "ini")


def _drawn(rng: random.Random, letters: str, least: int, most: int) -> str:
    return "".join(rng.choices(letters, k=rng.randint(least, most)))


def _cased(rng: random.Random, word: str) -> str:
    return rng.choice([word, word, word.capitalize(), word.capitalize(), word.upper()])


def _leet(rng: random.Random, word: str) -> str:
    changes = {"a": "4@", "e": "3", "i": "1!", "o": "0", "s": "5$", "t": "7"}
    return "".join(rng.choice(changes[c]) if c in changes and rng.random() < 0.6 else c for c in word)


def _of_a_person(rng: random.Random, words: Sequence[str]) -> str:
    word = rng.choice(_ROWS) if rng.random() < 0.12 else rng.choice(words)
    word = _leet(rng, word) if rng.random() < 0.25 else word
    tail = rng.choice(["", _drawn(rng, _DIGITS, 1, 4), str(rng.randint(1950, 2027)), f"{rng.randint(0, 99):02}"])
    mark = rng.choice(["", "", rng.choice(_MARKS), rng.choice("!?#$") * rng.randint(1, 3)])
    parts = [_cased(rng, word), *rng.choice([[tail, mark], [mark, tail], [tail, mark]])]
    if rng.random() < 0.2:
        parts.insert(1, _cased(rng, rng.choice(words)))
    return "".join(parts)


def _of_words(rng: random.Random, words: Sequence[str]) -> str:
    chosen = [rng.choice(words) for _ in range(rng.randint(3, 5))]
    if rng.random() < 0.3:
        chosen = [word.capitalize() for word in chosen]
    return rng.choice(["-", "-", "-", "_", "_", ".", ".", "", "+", " "]).join(chosen) + rng.choice(
        ["", "", _drawn(rng, _DIGITS, 1, 3)]
    )


def _of_digits(rng: random.Random) -> str:
    number = _drawn(rng, _DIGITS, 3, 8)
    if rng.random() < 0.25 and len(number) > 3:
        half = len(number) // 2
        return number[:half] + rng.choice(" -") + number[half:]
    return number + rng.choice(["", "", "", "#", "*"])


def password(rng: random.Random, words: Sequence[str], before: str) -> str:
    """Draw a password, passphrase or access code. `before`: the text before it, `words`: of the text's language."""
    if rng.random() < (0.75 if _NUMERIC.search(before[-_NEAR:]) else 0.06):
        return _of_digits(rng)
    draw = rng.random()
    if draw < 0.5:
        value = _of_a_person(rng, words)
    elif draw < 0.62:
        value = _of_words(rng, words)
    elif draw < 0.68:
        value = rng.choice(words) if rng.random() < 0.6 else rng.choice(_ROWS)
    else:
        value = _drawn(rng, rng.choice([_LETTERS + _DIGITS, _LETTERS + _DIGITS + _MARKS, _URL_SAFE, _HEX]), 6, 22)
    if _IN_URL.search(before):
        value = re.sub(r"[^\w.~-]", "-", value)
    return value


def secret(rng: random.Random) -> str:
    """Draw a key or a token of a machine."""
    draw = rng.random()
    if draw < 0.3:
        return rng.choice(_PREFIXES) + _drawn(rng, rng.choice([_URL_SAFE, _LETTERS + _DIGITS, _HEX]), 12, 44)
    if draw < 0.48:
        return _drawn(rng, _HEX, *rng.choice([(32, 32), (40, 40), (64, 64), (16, 24)]))
    if draw < 0.62:
        return _drawn(rng, _BASE64, 20, 64) + rng.choice(["", "=", "=="])
    if draw < 0.82:
        return _drawn(rng, rng.choice([_LETTERS + _DIGITS, _URL_SAFE, string.ascii_lowercase + _DIGITS]), 14, 48)
    if draw < 0.88:
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))
    if draw < 0.94:
        return "-".join(_drawn(rng, string.ascii_uppercase + _DIGITS, 5, 5) for _ in range(rng.randint(3, 5)))
    return ".".join(_drawn(rng, _URL_SAFE, 8, 30) for _ in range(rng.randint(2, 3)))


def username(rng: random.Random, first: str, last: str, known: str) -> str:
    """Draw an account's name from a person's name, a list of roles or `known`, a name by faker."""
    draw = rng.random()
    first, last = (re.sub(r"\W", "", name).lower() for name in (first, last))
    if draw < 0.25:
        return rng.choice(_ACCOUNTS)
    if draw < 0.6:
        number = rng.choice(["", "", str(rng.randrange(100)), str(rng.randint(1960, 2012))])
        joined = rng.choice([f"{first}.{last}", f"{first[:1]}{last}", f"{first}_{last}", f"{first}{last[:1]}", first])
        return joined + number
    return known if draw < 0.85 else _drawn(rng, string.ascii_lowercase, 3, 7) + _drawn(rng, _DIGITS, 1, 4)


def host(rng: random.Random) -> str:
    number = rng.choice(["", "", str(rng.randint(1, 20)), f"-{rng.randint(1, 9):02}", "-prod", ".eu"])
    return rng.choice(
        [f"{rng.choice(_HOSTS)}{number}.{rng.choice(_DOMAINS)}", "localhost", rng.choice(_HOSTS) + number]
    )


def path(rng: random.Random) -> str:
    folders = "/".join(rng.sample(_FOLDERS, rng.randint(1, 3)))
    return rng.choice(["/", "/", "./", "C:/"]) + f"{folders}/{rng.choice(_HOSTS)}.{rng.choice(_ENDS)}"


def version(rng: random.Random) -> str:
    return ".".join(str(rng.randrange(30)) for _ in range(rng.randint(2, 3))) + rng.choice(["", "", "-rc1", "b2", "+1"])


def hexadecimal(rng: random.Random) -> str:
    """Draw a digest, a commit or another number that is no secret."""
    return _drawn(rng, _HEX, *rng.choice([(7, 12), (32, 32), (40, 40), (64, 64), (16, 16)]))


def short_hexadecimal(rng: random.Random) -> str:
    return _drawn(rng, _HEX, 4, 12)


def digest(rng: random.Random) -> str:
    """Draw a digest in Base64."""
    return _drawn(rng, _BASE64, *rng.choice([(27, 27), (43, 43), (43, 43), (86, 86)])) + rng.choice(["", "=", "=="])


def ordered_identifier(rng: random.Random) -> str:
    """Draw an identifier such as a ULID."""
    return "01" + _drawn(rng, "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 24, 24)


def tail(rng: random.Random) -> str:
    """Draw the last part of the name of a pod or a style."""
    return _drawn(rng, "bcdfghjklmnpqrstvwxz2456789", 5, 5)


def size(rng: random.Random) -> str:
    number = rng.choice([rng.randint(1, 999), rng.randint(1, 99) / 10])
    return f"{number}{rng.choice(['Gi', 'Mi', 'G', 'M', 'K', 'kB', 'MB'])}"


def identifier(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))
