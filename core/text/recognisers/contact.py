"""Own recognisers for e-mail addresses, web addresses and phone numbers.

Presidio's recognisers have defects for these types. Its e-mail pattern is quadratic in a long word and misses every
address under a private suffix (`x@host.internal`). Its URL pattern treats a missing space after a full stop as a
domain. Its phone recogniser takes most of the whole time and misses local formats. All three scans below are linear in
the text.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

import phonenumbers
import regex  # type: ignore[import-untyped]

from core.text.recogniser import Hit, Recogniser, context_of, matches

# ---------------------------------------------------------------- e-mail

_LOCAL_CHAR = r"[^\s@<>()\[\]{},;:\"“”«»‹›|\\]"
_LABEL = r"[\p{L}\p{M}\p{N}_](?:[\p{L}\p{M}\p{N}\p{Cf}_-]*[\p{L}\p{M}\p{N}_])?"
_AFTER_AT = regex.compile(rf"[\p{{Cf}}]*(?:(?:{_LABEL}[.。])+(?!\p{{N}}){_LABEL}|\[[0-9A-Fa-f.:]{{3,45}}\])")
_AT = regex.compile("[@＠]")
_LOCAL = regex.compile(_LOCAL_CHAR)
_LEADING = "'‘’`*.=&?!/~"

_SPELT_AT = r"(?:\s*[\[({<]\s*(?:at|@)\s*[\])}>]\s*|\s+(?:at|AT)\s+)"
_SPELT_DOT = r"(?:\s*[\[({<]\s*(?:dot|\.)\s*[\])}>]\s*|\s+(?:dot|DOT)\s+)"
_SPELT = regex.compile(
    rf"(?<![\w.+-])[\w.+-]{{1,64}}+(?:{_SPELT_DOT}\w{{1,64}}){{0,3}}{_SPELT_AT}[\w-]{{1,63}}(?:{_SPELT_DOT}|\.)"
    rf"(?:[\w-]{{1,63}}(?:{_SPELT_DOT}|\.)){{0,3}}[^\W\d_]{{2,24}}\b"
)
_BRACKET_OR_DOT = regex.compile(r"\bdot\b|[\[({<]", regex.IGNORECASE)


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
            yield Hit(match.start(), _trim(text, *match.span()), 1.0)
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


# ---------------------------------------------------------------- phone

_BLANK = r"[ \t\u00a0\u2007\u2009\u202f]"
_DASH = r"\-\u2010-\u2015\u2212"
_GAP = rf"(?:{_BLANK}{{0,2}}[().{_DASH}/](?:{_BLANK}|\(){{0,2}}|{_BLANK}{{1,2}}\(?)"
_EXTENSION = regex.compile(r"[ ,;]{0,2}(?:x|ext\.?|extension|#)[ .:]{0,2}\d{1,6}(?!\d)", regex.IGNORECASE)
# A cluster: digit groups with at most a separator between them. Possessive, so that a text is scanned once.
_CLUSTER = regex.compile(rf"(?<![\p{{N}}])(?:[+＋][ ]?)?\(?\d++(?:\)?{_GAP}?+\)?\d++)*+")
_GROUP = regex.compile(r"\d+")
_NANP = regex.compile(
    rf"(?<!\d)(?:(?:\+|00)?1{_GAP}?)?(?:\(\d{{3}}\)[ ]?|\d{{3}}[ .{_DASH}]?)\d{{3}}[ .{_DASH}]?\d{{4}}(?!\d)"
)
_DATE = regex.compile(
    r"(?:(?:19|20)\d\d([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2(?:19|20)?\d\d)(?:[ T]{1,2}\d{1,2})?"
)
_YEARS = regex.compile(rf"(?:1[5-9]|20)\d\d(?:{_GAP}(?:1[5-9]|20)\d\d)+")
_THOUSANDS = regex.compile(r"\d{1,3}(?:([. \u00a0\u202f])\d{3})(?:\1\d{3})*")
_PRICE_OR_DECIMAL = regex.compile(r"\d+\.\d+")
_DECIMALS = regex.compile(r"0\.\d+(?:[-/ ]{1,3}-?0\.\d+)+")
_DAY = regex.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:(?:[01]\d|2[0-3])[0-5]\d(?:[0-5]\d)?)?")
_BYTES_BEFORE = regex.compile(r"(?<![\w])(?=[0-9a-f ]{0,4}[a-f])[0-9a-f]{2}[ ][0-9a-f]{2}[ ]\Z", regex.IGNORECASE)
_BYTES = regex.compile(r"\d\d(?:[ ]\d\d)*")
PHONE_DIGITS_MIN = 7
PHONE_DIGITS_MAX = 15
REGIONS = ("US", "GB", "DE", "FR", "IN", "AU", "BR", "ES", "IT", "NL", "SE", "CH", "PL", "IL", "ZA", "MX", "JP", "CN")

_PHONE_CONTEXT = (
    "phone telephone tel tele cell cellphone mobile mob fax call calling called dial ring hotline helpline number "
    "contact reach text sms message whatsapp signal desk office landline answering voicemail extension ext ph"
)


CODE_CHARS = 20
ARTICLE_CHARS = 50
_CODE_BEFORE = regex.compile(r"(?r)[0-9][A-Za-z]++\Z")
_CODE_AFTER = regex.compile(r"[A-Za-z]++[0-9]")
_ARTICLE = regex.compile(
    r"(?r)(?<!\p{L})(?:EAN(?:-?1[34])?|GTIN(?:-?1[34])?|UPC|ISBN(?:-?13)?|SKU|ASIN|bar-?code|Strichcode|code[ -]barres"
    r"|código de barras|codice a barre|streepjescode|kod kreskowy|kodu kreskowego"
    r"|(?:articles?|items?|products?|parts?|Artikel|Produkt|Bestell|Material|produit|artículo|producto"
    r"|articolo|prodotto"
    r"|artigo|produto|artykuł\p{L}{0,3}|produkt\p{L}{0,3}|towar\p{L}{0,3}|réf(?:érence)?|ref(?:erence|erencia|erenz|"
    r"erentie|erência|\.)?|référence|riferimento|numer referencyjny)"
    r"(?:[ .-]{0,2}(?:numbers?|nummer|codes?|no|nr|num|núm|n[°ºo]?|id|#)(?!\p{L}))?)"
    r"[\s.:#=(\"'–-]{1,6}(?:(?:is|ist|est|es|è|é|to|jest|lautet)[ ])?\Z",
    regex.IGNORECASE,
)


def _score(piece: str, digits: str) -> float:
    """Rate from 0 to 1 how much `piece`, a cluster of 7 to 15 digits, looks like a phone number without context."""
    bare = len(digits) == len(piece)
    if _DATE.fullmatch(piece) or _YEARS.fullmatch(piece) or _PRICE_OR_DECIMAL.fullmatch(piece):
        return 0.0
    if _DECIMALS.fullmatch(piece) or _DAY.fullmatch(piece):
        return 0.0
    if piece.count(".") == 3 and "(" not in piece:
        try:
            ipaddress.ip_address(piece)
        except ValueError:
            pass
        else:
            return 0.1
    if piece[0] in "+＋":
        return 0.75 if len(digits) >= 8 else 0.4
    if _NANP.fullmatch(piece):
        return 0.7 if not bare else _valid(piece, ("US",), 0.5, 0.3)
    if _THOUSANDS.fullmatch(piece) and digits[0] != "0":
        round_number = digits.endswith("000") or "." in piece or len(digits) < 9
        return 0.1 if round_number else _valid(piece, REGIONS, 0.4, 0.2)
    if digits.startswith("00") and len(digits) >= 10:
        return 0.6
    if bare:
        if len(digits) < 9:
            return 0.1
        return _valid(piece, REGIONS, 0.45, 0.1) if digits[0] == "0" or len(digits) >= 10 else 0.2
    groups = [len(group) for group in _GROUP.findall(piece)]
    if max(groups) > 8 or len(groups) > 6 or groups.count(1) > 2:
        return 0.2
    if digits[0] == "0":
        return 0.6
    if piece[0] == "(" or (len(groups) > 2 and min(groups) >= 2):
        return 0.45
    if groups == [3, 4] and not any(char.isspace() for char in piece):
        return 0.45
    return 0.2  # two plain groups: often a street number next to another number


def _valid(piece: str, regions: tuple[str, ...], yes: float, no: float) -> float:
    for region in regions:
        try:
            number = phonenumbers.parse(piece, region)
        except phonenumbers.NumberParseException:
            continue
        if phonenumbers.is_valid_number(number):
            return yes
    return no


def _in_code(text: str, start: int, end: int) -> bool:
    """Whether letters join the digits to more digits, as in a checksum; those of an extension (`x12`) do not."""
    if _CODE_BEFORE.search(text, max(0, start - CODE_CHARS), start):
        return True
    return _CODE_AFTER.match(text, end, end + CODE_CHARS) is not None and _EXTENSION.match(text, end) is None


def _is_article(text: str, start: int, piece: str) -> bool:
    """Whether digits in one group are the number of an article: 12 to 14 of them after a word for one."""
    if not (piece.isdecimal() and 12 <= len(piece) <= 14):
        return False
    return _ARTICLE.search(text, max(0, start - ARTICLE_CHARS), start) is not None


def _with_extension(text: str, end: int) -> int:
    extension = _EXTENSION.match(text, end)
    return extension.end() if extension else end


def _phone(text: str) -> Iterator[Hit]:
    for cluster in matches(_CLUSTER, text):
        start, end = cluster.span()
        if text[start] == "(" and ")" not in cluster.group():
            start += 1  # the bracket opens a remark, not an area code
        piece = text[start:end]
        digits = "".join(_GROUP.findall(piece))
        if len(digits) < PHONE_DIGITS_MIN or _in_code(text, start, end) or _is_article(text, start, piece):
            continue
        if piece.count("/") >= 4:
            continue  # times of a request
        if _BYTES.fullmatch(piece) and _BYTES_BEFORE.search(text, max(0, start - 6), start):
            continue  # a dump of bytes
        if (start and text[start - 1] in "$€£#") or text[end : end + 1] == "%":
            whole = 0.1
        elif len(digits) <= PHONE_DIGITS_MAX:
            whole = _score(piece, digits)
        else:
            whole = 0.0
        if whole:
            yield Hit(start, _with_extension(text, end), whole)
        if whole < 0.4 or len(digits) > 11:
            yield from _parts(text, *cluster.span())


def _parts(text: str, start: int, end: int) -> Iterator[Hit]:
    """Yield phone numbers inside a longer cluster: two numbers in a row, or one after a street number or a date."""
    for match in _NANP.finditer(text, start, end):
        if len(match.group()) > len("".join(_GROUP.findall(match.group()))):
            yield Hit(match.start(), _with_extension(text, match.end()), 0.6)
    groups = [match.span() for match in _GROUP.finditer(text, start, end)]
    for first, (left, _) in enumerate(groups):
        international = left > start and text[left - 1] in "+＋"
        if not international and (first == 0 or text[left] != "0" or not text[left - 1].isspace()):
            continue
        count, right = 0, left
        for group_start, group_end in groups[first : first + PHONE_DIGITS_MAX]:
            if group_start > left and text[group_start - 1] in "+＋":
                break
            if count + group_end - group_start > (15 if international else 11):
                break
            count += group_end - group_start
            right = group_end
        if count >= 9:
            yield Hit(left - international, _with_extension(text, right), 0.6)


def recognisers() -> tuple[Recogniser, ...]:
    return (
        Recogniser("EMAIL_ADDRESS", _email),
        Recogniser(
            "URL", _url, context_of(("url", "website", "web site", "site", "link", "visit", "homepage", "domain"))
        ),
        Recogniser("PHONE_NUMBER", _phone, context_of(_PHONE_CONTEXT.split(" ")), digits_min=PHONE_DIGITS_MIN),
    )
