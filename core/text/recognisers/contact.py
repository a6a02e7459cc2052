"""Own recognisers for e-mail addresses and web addresses.

Presidio's recognisers have defects for these types. Its e-mail pattern is quadratic in a long word and misses every
address under a private suffix (`x@host.internal`). Its URL pattern treats a missing space after a full stop as a
domain. Both scans below are linear in the text.
"""

from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from core.text.recogniser import Hit, Recogniser, context_of, matches

# ---------------------------------------------------------------- e-mail

_LOCAL_CHAR = r"[^\s@<>()\[\]{},;:\"“”«»‹›|\\]"
_LABEL = r"[\p{L}\p{M}\p{N}_](?:[\p{L}\p{M}\p{N}\p{Cf}_-]*[\p{L}\p{M}\p{N}_])?"
_AFTER_AT = regex.compile(rf"[\p{{Cf}}]*(?:(?:{_LABEL}[.。])+(?!\p{{N}}){_LABEL}|\[[0-9A-Fa-f.:]{{3,45}}\])")
_AT = regex.compile("[@＠]")
_LOCAL = regex.compile(_LOCAL_CHAR)
_WRAPS = regex.compile(r"\ASRS[01][=+-]|\+|bounces?-|return-", regex.IGNORECASE)
_DOMAIN = regex.compile(r"[\w-]++(?:\.[\w-]++)++")
_LEADING = "'‘’`*.=&?!/~"

_SPELT_AT = r"(?:\s*[\[({<]\s*(?:at|@)\s*[\])}>]\s*|\s+(?:at|AT)\s+)"
_SPELT_DOT = r"(?:\s*[\[({<]\s*(?:dot|\.)\s*[\])}>]\s*|\s+(?:dot|DOT)\s+)"
_SPELT = regex.compile(
    rf"(?<![\w.+-])[\w.+-]{{1,64}}+(?:{_SPELT_DOT}\w{{1,64}}){{0,3}}{_SPELT_AT}[\w-]{{1,63}}(?:{_SPELT_DOT}|\.)"
    rf"(?:[\w-]{{1,63}}(?:{_SPELT_DOT}|\.)){{0,3}}[^\W\d_]{{2,24}}\b"
)
_BRACKET_OR_DOT = regex.compile(r"\bdot\b|[\[({<]", regex.IGNORECASE)


def _key_chars(local: str) -> int:
    """Return how many characters before an address are a path, or keys such as `email=`.

    RFC 5322 allows `=`, `?`, `&` and `/` in an address; in practice all separate, except where a list wraps one address
    into another.
    """
    if local.startswith('"'):
        return 0
    path = local.rfind("/") + 1 if local.startswith("/") else 0
    start = max(path, local.rfind("?") + 1, local.rfind("&") + 1)
    key, equals, rest = local[start:].rpartition("=")
    wrapped = _WRAPS.search(key) and (key.startswith("SRS") or _DOMAIN.fullmatch(rest))
    return start if wrapped else start + len(key) + len(equals)


def _email(text: str) -> Iterator[Hit]:
    floor = 0
    for at in matches(_AT, text):
        domain = _AFTER_AT.match(text, at.end())
        start = at.start()
        if start > floor and text[start - 1] == '"':
            line = text.rfind('"', max(floor, start - 66), start - 1)
            start = line if line >= 0 else start
        while start > floor and _LOCAL.match(text, start - 1):
            start -= 1
        floor = at.end()
        start += _key_chars(text[start : at.start()])
        while start < at.start() and text[start] in _LEADING:
            start += 1
        if domain is not None and start < at.start():
            yield Hit(start, domain.end(), 1.0)
    # `name at host dot org` counts only if a bracket or the word `dot` shows that it is an address
    if _BRACKET_OR_DOT.search(text):
        for match in matches(_SPELT, text):
            if _BRACKET_OR_DOT.search(match.group()):
                yield Hit(match.start(), match.end(), 0.7)


# ---------------------------------------------------------------- URL

_STRONG_TLD = (
    "com|org|net|edu|gov|mil|int|info|biz|io|ai|app|dev|xyz|online|site|shop|store|tech|cloud|blog|museum|"
    "eu|uk|de|fr|es|pt|nl|ch|se|dk|fi|pl|cz|sk|hu|ro|bg|gr|hr|si|ee|lv|lt|ie|lu|mt|cy|ua|ru|by|tr|il|"
    "au|nz|jp|cn|kr|tw|hk|sg|th|vn|ph|pk|lk|za|ng|ke|eg|ma|br|ar|cl|co|mx|pe|uy|ve|ca|tv|local|internal|test|example"
)
_HOST = r"(?:[\p{L}\p{N}](?:[\p{L}\p{N}_-]{0,62})\.)"
_PATH = r"(?::\d{1,5})?(?:[/?#][^\s<>\"“”]*)?"
_SCHEME_URL = regex.compile(
    r"(?<![\w])(?:https?|ftps?|sftp|wss?|ssh|git|file|ldaps?|smb)://[^\s<>\"“”]+", regex.IGNORECASE
)
# an address of every machine, with at most one word such as `health` as its path
_EVERY_MACHINE = regex.compile(r"\w+://(?:127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[::1?\])(?::\d{1,5})?(?:/[a-z]{0,12})?/?")
_WWW_URL = regex.compile(rf"(?<![\w.-])www\d{{0,3}}\.{_HOST}*+[\p{{L}}\p{{N}}-]{{1,63}}{_PATH}", regex.IGNORECASE)
_STRONG = regex.compile(rf"(?:{_STRONG_TLD})", regex.IGNORECASE)
_BARE = regex.compile(rf"(?<![\w.@/-])((?:{_HOST}){{1,8}}?)(\p{{L}}{{2,24}})(?![\w@]|-\w|\.\w){_PATH}")
_COMMON = regex.compile("com|org|net|edu|gov", regex.IGNORECASE)
# Endings of files; some are top-level domains of countries, which need a path, a scheme or `www`.
_FILE = regex.compile(
    "gz|tgz|zip|bz2|xz|tar|rar|js|jsx|mjs|ts|tsx|py|pyc|rb|rs|sh|bash|bat|ps|md|rst|txt|csv|tsv|json|jsonl|xml|yml"
    "|yaml|html|htm|css|scss|php|java|kt|go|cpp|cc|hpp|so|dll|exe|bin|jar|war|class|sql|db|log|ini|cfg|conf|toml|lock"
    "|bak|tmp|pdf|docx?|xlsx?|pptx?|odt|png|jpe?g|gif|svg|webp|ico|mp[34]|mov|wav|avi|pem|crt|key|mk|vue|swift|lua|tf"
    "|ipynb|env|iso|img|deb|rpm|apk|dmg|pkg|service|timer|socket|target"
)
_ANNOTATION = regex.compile(
    r"(?:[a-z0-9-]+\.)*(?:kubernetes|k8s|helm|istio|argoproj|cert-manager)\.(?:io|sh)/[\w.-]+:?"
)
# the image of a container in a registry without a public suffix
_IMAGE = regex.compile(
    r"[\w-]+(?:\.[\w-]+)*\.(?:local|internal|lan|svc|test|example)(?::\d{1,5})?(?:/[a-z\d][a-z\d._-]*)+"
    r"(?::\w[\w.-]{0,60}|@sha256:[\da-f]{6,64})"
)
_TRAILING = ".,;:!?'’)]}*_"


def _trim(text: str, start: int, end: int) -> int:
    while end > start and text[end - 1] in _TRAILING:
        if text[end - 1] == ")" and text.count("(", start, end) >= text.count(")", start, end):
            break
        end -= 1
    return end


def _url(text: str) -> Iterator[Hit]:
    for pattern in (_SCHEME_URL, _WWW_URL):
        for match in matches(pattern, text):
            end = _trim(text, *match.span())
            if not _EVERY_MACHINE.fullmatch(text, match.start(), end):
                yield Hit(match.start(), end, 1.0)
    for match in matches(_BARE, text):
        host, suffix = match.group(1), match.group(2)
        if not match.group().endswith(suffix):
            pass  # a path or a port follows, which only an address has
        elif _FILE.fullmatch(suffix) or (text.startswith("(", match.end()) and not _COMMON.fullmatch(suffix)):
            continue  # `archive.tar.gz`, `session.get(`
        if _ANNOTATION.fullmatch(match.group()) or (
            text.startswith("=", match.end()) and match.group().endswith(suffix)
        ):
            continue  # the name of a label, or of a property
        if _IMAGE.fullmatch(text, match.start(), _trim(text, *match.span())):
            continue
        tail = text[match.end(2) : match.end(2) + 1] == "/"
        labels = host.count(".")
        if _STRONG.fullmatch(suffix) and (suffix.islower() or match.group().isupper()):
            score = 0.6
        elif suffix.islower() and (tail or labels > 1) and any(len(part) > 1 for part in host.split(".")[:-1]):
            score = 0.45 if tail else 0.3
        elif suffix.islower():
            score = 0.1
        else:
            continue
        yield Hit(match.start(), _trim(text, *match.span()), score)


def recognisers() -> tuple[Recogniser, ...]:
    return (
        Recogniser("EMAIL_ADDRESS", _email),
        Recogniser(
            "URL", _url, context_of(("url", "website", "web site", "site", "link", "visit", "homepage", "domain"))
        ),
    )
