"""Bank accounts, routing numbers of banks, and business identifier codes (SWIFT)."""

from __future__ import annotations

from collections.abc import Iterator

import phonenumbers
import regex  # type: ignore[import-untyped]

from core.text.labelled import LABELLED_SCORE, Label, Value, labelled_scan, phrases
from core.text.recogniser import Hit, Recogniser, context_of, matches
from core.text.recognisers.numbers import iban_valid
from core.text.written_numbers import Number, number_scan

_ACCOUNT = phrases(
    "account number|account no|account nr|account num|acct number|acct no|acct|a/c|a/c no|bank account|"
    "bank account number|current account|checking account|savings account|Kontonummer|Konto-Nr|Konto Nr|Kontonr|"
    "Kto|Kto-Nr|Bankkonto|Girokonto|Konto|numéro de compte|compte|n° de compte|compte bancaire|compte courant|"
    "compte n°|RIB|número de cuenta|n.º de cuenta|nº de cuenta|cuenta bancaria|cuenta corriente|cuenta|CLABE|CBU|CCC|"
    "numero di conto|numero conto|conto corrente|conto bancario|c/c|rekeningnummer|bankrekening|"
    "bankrekeningnummer|rekening|rekeningnr|número da conta|número de conta|conta bancária|conta corrente|"
    "conta n.º|NIB|numer konta|nr konta|konto bankowe|konta bankowego|numer rachunku|nr rachunku|"
    "rachunek bankowy|rachunku bankowego|NRB"
)
_ROUTING = phrases(
    "sort code|sortcode|routing number|routing no|routing code|routing|RTN|ABA|ABA number|transit number|"
    "transit no|institution number|BSB|IFSC|IFSC code|bank code|branch code|clearing number|clearing code|"
    "Bankleitzahl|BLZ|Clearingnummer|BC-Nummer|code banque|code guichet|guichet|banque|código de banco|código bancario|"
    "sucursal|ABI|CAB|codice ABI|codice CAB|bankcode|código do banco|agência|numer rozliczeniowy"
)
_ACCOUNT_VALUE = Value(r"(?=(?:[^\W_][-/. \u00a0]{0,2}){5,30}\Z)(?:[A-Z]{1,2}[ -]?)?\d[\d/. \u00a0-]*", spaced=True)
_ROUTING_VALUE = Value(
    r"\d{5,9}|(?!19|20)\d{4}|\d{2}-\d{2}-\d{2}|\d{2} \d{2} \d{2}|\d{3} \d{3} \d{2}|\d{3}-\d{3}|[A-Z]{4}0[A-Z0-9]{6}",
    spaced=True,
    dates=True,
)


def polish_account(number: str) -> bool:
    return iban_valid("PL" + number.replace(" ", ""))


_ACCOUNTS = (
    Number("AR", "CBU", "ar.cbu", alone="9999999999999999999999", near="99999999 99999999999999"),
    Number("CZ", "account", "cz.bankaccount", near="99-9999999999/9999|999999-9999999999/9999|9999999999/9999"),
    Number("ES", "CCC", "es.ccc", alone="9999-9999-99-9999999999|9999 9999 99 9999999999", near="99999999999999999999"),
    Number("NO", "account", "no.kontonr", near="9999.99.99999|9999 99 99999|99999999999"),
    Number("NZ", "account", "nz.bankaccount", near="99-9999-9999999-99|99-9999-9999999-999"),
    Number("PL", "NRB", polish_account, alone="99 9999 9999 9999 9999 9999 9999|99999999999999999999999999"),
)

# ---------------------------------------------------------------- SWIFT (ISO 9362)

_BIC = regex.compile(r"(?<![\w-])[A-Z]{4}([A-Z]{2})[A-Z0-9]{2}([A-Z0-9]{3})?(?![\w-])", regex.IGNORECASE)
_COUNTRIES = frozenset(phonenumbers.SUPPORTED_REGIONS)
_BIC_LABEL = Label(
    names=phrases(
        "BIC|BIC code|BIC/SWIFT|SWIFT/BIC|SWIFT-BIC|SWIFT code|SWIFT number|SWIFT address|code BIC|code SWIFT|"
        "código SWIFT|código BIC|codice SWIFT|codice BIC|kod SWIFT|kod BIC"
    )
)
_SWIFT_LABEL = regex.compile(r"(?r)(?<![^\W_])SWIFT[ \t]*[:=#(][\s\"'*]{0,4}\Z", regex.IGNORECASE)


_PAID_THROUGH = regex.compile(
    r"(?r)(?<!\p{L})(?:[Ww]ired?|[Rr]emit|[Tt]ransfer(?:red)?|[Pp]ay(?:ment|able)?|[Üü]berweis\p{L}{1,6}|[Vv]irement"
    r"|[Tt]ransferencia|[Bb]onifico|[Oo]verboeking|[Tt]ransferência|[Pp]rzelew)[ ](?:\p{Ll}{1,10}[ ]){0,2}"
    r"(?:via|through|to|über|an|par|por|tramite|para|przez|do)[ ]\Z"
)


def _paid_through(text: str, start: int) -> bool:
    """Whether money goes through the bank whose code starts at `start`. The code holds a digit: words in capitals do
    not."""
    code = text[start : start + 8]
    return any(map(str.isdecimal, code)) and _PAID_THROUGH.search(text, max(0, start - 50), start) is not None


def _codes(text: str) -> Iterator[regex.Match[str]]:
    """Yield what has the form of a code, in capital or in small letters, with the code of a country."""
    for match in matches(_BIC, text):
        if match.group(1).upper() in _COUNTRIES and (match.group().isupper() or match.group().islower()):
            yield match


def _labelled_code(text: str) -> Iterator[Hit]:
    """Yield codes after a label and those of a head office (XXX). Words have this form too: `business`, NE is Niger."""
    for match in _codes(text):
        start, end = match.span()
        if (
            _BIC_LABEL.score(text, start)
            or _SWIFT_LABEL.search(text, max(0, start - 12), start)
            or _paid_through(text, start)
        ):
            yield Hit(start, end, LABELLED_SCORE)
        elif match.group(2) == "XXX":
            yield Hit(start, end, 0.6)


def _code_with_digit(text: str) -> Iterator[Hit]:
    for match in _codes(text):
        if match.group().isupper() and any(map(str.isdecimal, match.group())):
            yield Hit(match.start(), match.end(), 0.1)


def recognisers() -> tuple[Recogniser, ...]:
    account, routing = Label(names=_ACCOUNT), Label(names=_ROUTING)
    return (
        Recogniser("BANK_ACCOUNT", labelled_scan(account, _ACCOUNT_VALUE), digits_min=5, copies=True),
        Recogniser("BANK_ACCOUNT", number_scan(_ACCOUNTS, _ACCOUNT), digits_min=10, copies=True),
        Recogniser("BANK_ROUTING", labelled_scan(routing, _ROUTING_VALUE), digits_min=4, copies=True),
        Recogniser("SWIFT_CODE", _labelled_code, copies=True),
        Recogniser("SWIFT_CODE", _code_with_digit, context_of(("BIC", "SWIFT", "IBAN")), digits_min=1),
    )
