"""Words for things that have numbers, in eight languages: directly before a number, one speaks against other types.

`invoice 2024-0815-33` is no phone number, and `version 1.2.3.4` is no address. Only words for "number", a verb and
punctuation may stand between; any other word, such as one for a phone, wins.
"""

from __future__ import annotations

from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from core.text.recogniser import Hit, Scan

THING_CHARS = 50

_ARTICLES = (
    r"EAN(?:-?1[34])?|GTIN(?:-?1[34])?|UPC|ISBN(?:-?13)?|SKU|ASIN|bar-?code|Strichcode|code[ -]barres"
    r"|código de barras|codice a barre|streepjescode|kod kreskowy|kodu kreskowego"
    r"|articles?|items?|products?|parts?|Artikel|Produkt|Bestell|Material|produit|artículo|producto|articolo|prodotto"
    r"|artigo|produto|artykuł\p{L}{0,3}|produkt\p{L}{0,3}|towar\p{L}{0,3}"
)
_REFERENCES = r"réf(?:érence)?|ref(?:erence|erencia|erenz|erentie|erência|\.)?|référence|riferimento|numer referencyjny"
_VERSIONS = (
    r"versions?|ver|versión|versione|versie|versão|wersj[aięą]|release|build|firmware|patch|kernel|revision|rev"
    r"|veröffentlichung|ausgabe|publication|lanzamiento|compilación|compilation|rilascio|uitgave|lançamento|compilação"
    r"|wydani[aeu]|kompilacj[aięą]|micrologiciel|software"
)
_OTHERS = (
    r"invoices?|Rechnungs?|Rechnungen|factur(?:e|es|a|as)|fattur[ae]|factuur|factuurs?|faturas?|faktur(?:a|y|ze|ę|ą)?"
    r"|receipt|Quittungs?|Belegs?"
    r"|serial|S/N|SN|Serien|série|serie|ser(?:yjny|yjnego|ii|ia)|imei"
    r"|orders?|purchase[ _]orders?|PO|Bestellungs?|Auftrags?|commande|pedidos?|ordine|ordini|bestelling|bestel|order"
    r"|encomenda|zamówieni(?:e|a|u|em)"
    r"|Teile?|Ersatzteil|pièce|pieza|pezzo|ricambio|onderdeel|peça|części|część"
    r"|Posten|Positions?|ítem|voce|pozycj[aięą]"
    r"|tickets?|Vorgangs?|Fall|billet|biglietto|bilhete|bilet(?:u|em)?|zgłoszeni(?:e|a|u)|issue|case|boleto"
    r"|batch|lot|lote|lotto|Charge|Chargen|partij|parti[aię]|models?|Modell|modèle|modelo|modello"
    r"|tracking|Sendungs?|suivi|seguimiento|spedizione|zending|przesyłki"
)
_IDENTITIES = (
    r"SSN|social[ -]security|NSS|INSS|NUSS|NISS|sécurité sociale|seguridad social|segurança social|previdenza sociale"
    r"|Sozialversicherungs?"
)
_NUMBER = (
    r"(?:[\s._-]{0,2}(?:numbers?|nummern?|codes?|nos?|nr|nbr|num|núm|numéro|número|numero|numer|numeru|n[°ºo]?|id|key|#)"
    r"(?!\p{L}))?"
)
_END = r"[\s.:=#(\"'–/-]{0,6}+(?:(?:is|ist|est|es|è|é|to|jest|lautet|of|van|von|de)[ ])?v?\Z"


def _before(words: str) -> regex.Pattern[str]:
    return regex.compile(rf"(?r)(?<!\p{{L}})(?:{words}){_NUMBER}{_END}", regex.IGNORECASE)


_ARTICLE = _before(f"{_ARTICLES}|{_REFERENCES}")
_THING = _before(f"{_ARTICLES}|{_VERSIONS}|{_OTHERS}|{_IDENTITIES}")
_VERSION = _before(f"{_VERSIONS}|v|Chrome|Chromium|Edg|OPR")


def _stands_before(words: regex.Pattern[str], text: str, start: int) -> bool:
    return words.search(text, max(0, start - THING_CHARS), start) is not None


def is_article(text: str, start: int, piece: str) -> bool:
    """Whether digits in one group are the number of an article: 12 to 14 of them after a word for one."""
    return piece.isdecimal() and 12 <= len(piece) <= 14 and _stands_before(_ARTICLE, text, start)


def names_thing(text: str, start: int) -> bool:
    """Whether a word for a thing that has a number, or for another number of a person, stands directly before
    `start`."""
    return _stands_before(_THING, text, start)


def without_versions(scan: Scan) -> Scan:
    """Return `scan` without the hits of four numbers after a word for a version."""

    def filtered(text: str) -> Iterator[Hit]:
        for hit in scan(text):
            if not (_is_quad(text, hit) and _stands_before(_VERSION, text, hit.start)):
                yield hit

    return filtered


def _is_quad(text: str, hit: Hit) -> bool:
    return text.count(".", hit.start, hit.end) == 3 and ":" not in text[hit.start : hit.end]
