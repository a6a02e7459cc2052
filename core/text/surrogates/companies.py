"""ORGANIZATION: a company of the document's language, with the legal form and the letter case of the original."""

from __future__ import annotations

import regex  # type: ignore[import-untyped]

from core.text.surrogates.draw import Draw
from core.text.surrogates.name_book import SINGLE_ATTEMPTS, one_of
from core.text.surrogates.names import companies, lists_of
from core.text.surrogates.shape import cased

ACRONYM_CHARS_MAX = 6

_LEGAL = regex.compile(
    r"(?<![, ])[, ]+(?:GmbH(?: & Co\.? ?KGa?A?)?|& Co\.? ?KG|AG(?: & Co\.? ?KG)?|SE|e\.? ?V\.?|e\.? ?G\.?"
    r"|e\.? ?K\.?|KG(?:aA)?|OHG|mbH|UG|GbR|Stiftung(?: & Co\.? ?KG)?"
    r"|Inc\.?|Incorporated|LLC|L\.L\.C\.|LLP|LP|Ltd\.?|Limited|Corp\.?|Corporation|PLC|plc|Co\.?"
    r"|Company|Group|Holdings?"
    r"|S\.?A\.?S\.?U?|SARL|S\.à r\.l\.|S\.?A\.?R\.?L\.?|SNC|S\.?A\.?|S\.?L\.?U?\.?|S\.?p\.?A\.?"
    r"|S\.?r\.?l\.?s?|s\.?n\.?c\.?|& figli|e figli SPA"
    r"|B\.?V\.?(?:BA)?|N\.?V\.?|V\.?O\.?F\.?|S\.?C\.?P\.?|S\.?Com\.|Lda\.?|Ltda\.?|C\.?B\.?"
    r"|S\.?Coop\.?|E\.I\.R\.L\.|sp\. z o\.? ?o\.?(?: sp\. ?k\.)?"
    r"|Sp\. ?z ?o\.? ?o\.?|Sp\. ?[jkp]\.|S\.K\.A\.|S\.A\.)$",
    regex.IGNORECASE,
)


def organization(original: str, draw: Draw) -> str:
    """Return an acronym for an acronym, one word for one word, else the name of a company."""
    legal = _LEGAL.search(original)
    suffix = legal.group() if legal else ""
    core = original[: len(original) - len(suffix)]
    if core.isupper() and core.isalpha() and len(core) <= ACRONYM_CHARS_MAX and not draw.long:
        return draw.letters(len(core)).upper() + suffix
    language = draw.document.language
    if len(core.split()) < 2:
        return cased(core, one_of(lists_of(language).surnames, draw)) + suffix
    if draw.attempt >= SINGLE_ATTEMPTS:
        return cased(core, f"{one_of(lists_of(language).surnames, draw)} {draw.invented()}") + suffix
    company = draw.choice(companies(language))
    return cased(core, _LEGAL.sub("", company) or company) + suffix
