"""The inflected forms of a name in eight languages: cases of Polish, genitives and plurals of the others.

A form is named by its case, so that the form of a surrogate gives the same form of the original. A name whose forms
need more than an ending and the usual change of its last consonant has only the forms that are certain.
"""

from __future__ import annotations

from core.text.surrogates.names import is_adjective

_SIBILANTS = tuple("sßxzSXZ")
_GENITIVE_S = ("en", "de", "nl", "pt", "es", "fr")  # a genitive, or the plural of a family
_PLURAL_ES = ("en", "es")
_GERMAN = ("sche", "schen", "scher", "sches")
_SOFTENED = {
    "ch": "sze", "st": "ście", "k": "ce", "g": "dze", "r": "rze", "ł": "le", "t": "cie", "d": "dzie", "n": "nie",
    "m": "mie", "b": "bie", "p": "pie", "w": "wie", "f": "fie", "z": "zie", "s": "sie",
}  # fmt: skip
_SOFT = ("i", "j", "l", "c", "cz", "sz", "rz", "ż", "dz", "ś", "ć", "ń", "ź")
_ADJECTIVE = {
    "i": {"genitive": "iego", "dative": "iemu", "accusative": "iego", "instrumental": "im", "plural genitive": "ich",
          "plural": "ie", "plural instrumental": "imi"},
    "a": {"genitive": "iej", "dative": "iej", "accusative": "ą", "instrumental": "ą", "plural genitive": "ich",
          "plural": "ie", "plural instrumental": "imi"},
}  # fmt: skip


def inflected(word: str, language: str) -> dict[str, str]:
    """Return case -> form of a name that is one word. Polish: cases that have the same form have each a row."""
    if len(word) < 3 or not word[-1].isalpha() or word.isupper() or not word[0].isupper():
        return {}
    if language == "pl":
        return _polish(word)
    forms = {}
    if language in _GENITIVE_S and not word.endswith(_SIBILANTS):
        forms["s"] = word + "s"
        forms["s apostrophe"] = word + "s'"
    if language in _PLURAL_ES and (word.endswith(_SIBILANTS) or (language == "es" and word[-1] not in "aeiouáéíóú")):
        forms["es"] = word + "es"
    if language == "de":
        forms |= {ending: word + ending for ending in _GERMAN}
    return forms


def same_form(case: str, original: str, language: str) -> str:
    """Return the form of `original` in the case, or the original itself if it has no such form."""
    found = inflected(original, language).get(case)
    if found is None and case in ("s", "s apostrophe") and language in ("de", "nl") and original.endswith(_SIBILANTS):
        return original + "'"
    return found or original


def _polish(word: str) -> dict[str, str]:
    if is_adjective(word):
        return {case: word[:-1] + ending for case, ending in _ADJECTIVE[word[-1].lower()].items()}
    if word.endswith("a"):
        return _in_a(word[:-1])
    if word[-1] in "eioóuyąę" or word.endswith(("ek", "iec", "eń")):
        return {}
    return _consonant(word)


def _in_a(stem: str) -> dict[str, str]:
    soft = stem.endswith(_SOFT)
    after = "i" if stem.endswith(("k", "g", "l", "j")) else "" if stem.endswith("i") else "i" if soft else "y"
    genitive = stem + (after or "i" if stem.endswith(("ri", "li", "ni", "wi", "fi", "ti", "di")) else after)
    dative = genitive if soft else _soften(stem)
    return {
        "genitive": genitive,
        "dative": dative or genitive,
        "accusative": stem + "ę",
        "instrumental": stem + "ą",
        "vocative": stem + "o",
    }


def _consonant(word: str) -> dict[str, str]:
    velar = word.endswith(("k", "g"))
    forms = {
        "genitive": word + "a",
        "accusative": word + "a",
        "dative": word + "owi",
        "instrumental": word + ("iem" if velar else "em"),
        "plural": word + "owie",
        "plural genitive": word + "ów",
        "plural dative": word + "om",
    }
    soft = velar or word.endswith(_SOFT) or word.endswith("ch")
    local = word + "u" if soft else _soften(word)
    return forms | ({"locative": local} if local else {})


def _soften(stem: str) -> str | None:
    """Return the stem with the ending -e and the change of consonants before it."""
    for end in sorted(_SOFTENED, key=len, reverse=True):
        if stem.endswith(end):
            return stem[: -len(end)] + _SOFTENED[end]
    return None
