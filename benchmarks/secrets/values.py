"""Random values of each kind. Keys are put together at run time, so that this file holds none.

The values have the published form of their service and are drawn from a seeded generator: they open nothing.
"""

from __future__ import annotations

import base64
import json
import random
import string
import uuid
from collections.abc import Callable

Value = Callable[[random.Random], str]

_ALNUM = string.ascii_letters + string.digits
_URL = _ALNUM + "-_"
_HEX = "0123456789abcdef"
_UPPER = string.ascii_uppercase + string.digits
_BASE32 = string.ascii_uppercase + "234567"
_LOWER = string.ascii_lowercase + string.digits


def chars(count: int, alphabet: str = _ALNUM) -> Value:
    return lambda rng: "".join(rng.choices(alphabet, k=count))


def joined(*parts: str | Value) -> Value:
    return lambda rng: "".join(part if isinstance(part, str) else part(rng) for part in parts)


def _b64(count: int) -> Value:
    return lambda rng: base64.b64encode(rng.randbytes(count)).decode()


def _jwt(rng: random.Random) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    head = part({"alg": rng.choice(("HS256", "RS256", "ES256")), "typ": "JWT"})
    body = part({"sub": str(rng.randrange(10**9)), "iat": rng.randrange(10**9, 2 * 10**9)})
    return f"{head}.{body}.{chars(43, _URL)(rng)}"


def _pem(label: str, count: int) -> Value:
    def value(rng: random.Random) -> str:
        body = _b64(count)(rng)
        lines = [body[at : at + 64] for at in range(0, len(body), 64)]
        return "\n".join(("-" * 5 + f"BEGIN {label}" + "-" * 5, *lines, "-" * 5 + f"END {label}" + "-" * 5))

    return value


def _uuid(rng: random.Random) -> str:
    return str(uuid.UUID(bytes=rng.randbytes(16), version=4))


# published formats, which need no context
FORMATS: dict[str, Value] = {
    "aws access key": joined("AK", "IA", chars(16, _BASE32)),
    "aws temporary key": joined("AS", "IA", chars(16, _BASE32)),
    "google api": joined("AI", "za", "Sy", chars(33, _URL)),
    "google oauth client": joined("GOC", "SPX-", chars(28, _URL)),
    "google access": joined("ya", "29.a0", chars(120, _URL)),
    "azure client secret": joined(chars(3), "8", "Q~", chars(34)),
    "github classic": joined("gh", "p_", chars(36)),
    "github server": joined("gh", "s_", chars(36)),
    "github fine-grained": joined("github", "_pat_", chars(22), "_", chars(59)),
    "gitlab": joined("gl", "pat-", chars(20, _URL)),
    "gitlab deploy": joined("gl", "dt-", chars(20, _URL)),
    "slack bot": joined("xo", "xb-", chars(12, string.digits), "-", chars(13, string.digits), "-", chars(24)),
    "slack app": joined("xa", "pp-1-", chars(11, _UPPER), "-", chars(13, string.digits), "-", chars(64, _HEX)),
    "slack webhook": joined(
        "https://hooks.sl", "ack.com/services/T", chars(8, _UPPER), "/B", chars(10, _UPPER), "/", chars(24)
    ),
    "stripe secret": joined("sk", "_live_", chars(24)),
    "stripe restricted": joined("rk", "_live_", chars(99)),
    "stripe webhook": joined("wh", "sec_", chars(32)),
    "twilio key": joined("S", "K", chars(32, _HEX)),
    "sendgrid": joined("S", "G.", chars(22, _URL), ".", chars(43, _URL)),
    "npm": joined("np", "m_", chars(36)),
    "pypi": joined("py", "pi-AgEIcHlwaS5vcmc", chars(150, _URL)),
    "openai": joined("s", "k-", chars(20), "T3Blbk", "FJ", chars(20)),
    "openai project": joined("sk", "-proj-", chars(74, _URL), "T3Blbk", "FJ", chars(74, _URL)),
    "anthropic": joined("sk", "-ant-api03-", chars(93, _URL), "AA"),
    "hugging face": joined("h", "f_", chars(34, string.ascii_letters)),
    "digitalocean": joined("do", "p_v1_", chars(64, _HEX)),
    "shopify": joined("shp", "at_", chars(32, _HEX)),
    "telegram": joined(chars(10, "123456789"), ":A", "A", chars(33, _URL)),
    "discord bot": joined("M", "T", chars(22), ".G", chars(5), ".", chars(38, _URL)),
    "discord webhook": joined("https://disc", "ord.com/api/webhooks/", chars(18, "123456789"), "/", chars(68, _URL)),
    "mailgun": joined("ke", "y-", chars(32, _HEX)),
    "mailchimp": joined(chars(32, _HEX), "-u", "s14"),
    "databricks": joined("da", "pi", chars(32, _HEX)),
    "age": joined("AGE-SEC", "RET-KEY-1", chars(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L")),
    "vault": joined("hv", "s.", chars(90, _URL)),
    "terraform": joined(chars(14), ".atlas", "v1.", chars(67, _URL)),
    "docker": joined("dckr", "_pat_", chars(27, _URL)),
    "square": joined("sq", "0csp-", chars(43, _URL)),
    "paypal braintree": joined("access", "_token$production$", chars(16, _LOWER), "$", chars(32, _HEX)),
    "facebook": joined("EA", "ACEdEose0cBA", chars(150)),
    "heroku": joined("HR", "KU-AA", chars(58, _URL)),
    "linear": joined("lin", "_api_", chars(40)),
    "grafana": joined("gl", "sa_", chars(32), "_", chars(8, _HEX)),
    "airtable": joined("pa", "t", chars(14), ".", chars(64, _HEX)),
    "groq": joined("gs", "k_", chars(52)),
    "brevo": joined("xkey", "sib-", chars(64, _HEX), "-", chars(16)),
    "jwt": _jwt,
    "rsa key": _pem("RSA PRIVATE KEY", 1190),
    "ec key": _pem("EC PRIVATE KEY", 121),
    "pkcs8 key": _pem("PRIVATE KEY", 1218),
    "openssh key": _pem("OPENSSH PRIVATE KEY", 290),
    "pgp key": _pem("PGP PRIVATE KEY BLOCK", 1700),
}

# no published format: only a context shows that these are secrets
BLIND: dict[str, Value] = {
    "hex 32": chars(32, _HEX),
    "hex 40": chars(40, _HEX),
    "hex 64": chars(64, _HEX),
    "base64 32": _b64(24),
    "base64 44": _b64(32),
    "base64 88": _b64(64),
    "letters and digits 16": chars(16),
    "letters and digits 24": chars(24),
    "letters and digits 40": chars(40),
    "url-safe 43": chars(43, _URL),
    "lower case 20": chars(20, _LOWER),
    "lower case 32": chars(32, _LOWER),
    "capitals 24": chars(24, _UPPER),
    "uuid": _uuid,
    "aws secret": chars(40, _ALNUM + "+/"),
}

_WORDS = [
    "Winter",
    "Sommer",
    "Kotek",
    "Soleil",
    "Verano",
    "Blume",
    "dragon",
    "monkey",
    "football",
    "Lisboa",
    "Pompei",
    "pannenkoek",
    "qwerty",
    "Tulipan",
    "berlin",
    "Marzec",
]


def password(rng: random.Random) -> str:
    word = rng.choice(_WORDS)
    style = rng.randrange(6)
    if style == 0:
        return f"{word}{rng.randrange(10, 9999)}"
    if style == 1:
        return f"{word}{rng.randrange(1950, 2030)}{rng.choice('!?#*')}"
    if style == 2:
        return chars(rng.randrange(8, 17))(rng) + str(rng.randrange(10))
    if style == 3:
        return chars(rng.randrange(9, 15), _ALNUM + "!#$%*+?@^")(rng) + rng.choice("0123456789")
    if style == 4:
        swaps = str.maketrans({"a": "4", "e": "3", "i": "1", "o": "0"})
        return word.translate(swaps) + rng.choice("&!_-") + str(rng.randrange(100))
    return "-".join(rng.sample([each.lower() for each in _WORDS], 3)) + str(rng.randrange(10, 99))


def plain_password(rng: random.Random) -> str:
    return "P" + chars(rng.randrange(7, 14))(rng) + str(rng.randrange(10))


def code(rng: random.Random) -> str:
    return "".join(rng.choices(string.digits, k=rng.choice((4, 5, 6, 6, 8))))


_FIRST = [
    "anna",
    "jan",
    "piotr",
    "marie",
    "luis",
    "giulia",
    "sanne",
    "tiago",
    "emma",
    "noah",
    "lena",
    "hugo",
    "carmen",
    "paolo",
    "bram",
    "ines",
]
_LAST = [
    "kowalska",
    "smith",
    "keller",
    "dupont",
    "garcia",
    "rossi",
    "devries",
    "silva",
    "novak",
    "brown",
    "maier",
    "martin",
    "lopez",
    "bianchi",
    "jansen",
    "costa",
]


def username(rng: random.Random) -> str:
    first, last = rng.choice(_FIRST), rng.choice(_LAST)
    return rng.choice(
        (
            f"{first[0]}{last}",
            f"{first}.{last}",
            f"{first}_{last}",
            f"{first}{rng.randrange(10, 99)}",
            f"{last}{first[0]}{rng.randrange(1, 9)}",
            f"{first}-{last}",
        )
    )


def handle(rng: random.Random) -> str:
    return "@" + username(rng).replace(".", "_").replace("-", "_")


def age(rng: random.Random) -> str:
    return str(rng.randrange(90, 109))
