"""Numbers in the forms in which they are written, with their check digits: one row for each number of a country.

A form is a string of `9` for a digit, `A` for a letter, and separators as they are: `999.999.999-99`. A space also
stands for the spaces that do not break, and a hyphen for all dashes. A row lists forms that pass alone and forms that
need a context word nearby. Only numbers with valid check digits are found. A form that passes alone has separators or
letters, and at most one number in 40 of that form is valid by chance; or it is a bare number, of which at most one in
1,000 is valid. Numbers with a type of their own (`US_SSN`, `UK_NINO`, `ES_NIF`, `PL_PESEL`, ...) have no row.

Cost: linear in the text, and one check for each form that a number fits.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import NamedTuple

import regex  # type: ignore[import-untyped]
from stdnum.cn import ric
from stdnum.exceptions import ValidationError

from core.text.labelled import Anchors
from core.text.recogniser import Hit, Scan, context_of, stands_near
from core.text.recognisers.numbers import iban_valid, luhn

ALONE_SCORE = 0.6
NEAR_SCORE = 0.55

_DIGITS, _LETTERS = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PLAIN = {ord(char): " " for char in "\u00a0\u2007\u2009\u202f"} | {
    ord(char): "-" for char in "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
}
_SHAPE = {ord(char): "9" for char in _DIGITS} | {ord(char): "A" for char in _LETTERS}
_RUN = re.compile(r"[0-9](?<!\d\d)(?<!\d[.,/-][0-9])[0-9]*")  # not after a digit, nor after one with a mark
_LETTERS_BEFORE = regex.compile(r"(?r)(?<![\w])[A-Za-z]{1,4}[ -]?\Z")
_GOES_ON = regex.compile(r"[\w@]|[-./,:][A-Za-z0-9]")
_HEAD_CHARS = 4

Check = Callable[[str], bool]


class Number(NamedTuple):
    """A number of a country (`ISO 3166`; `EU`). `check`: a module of stdnum, or a function. Forms are separated by
    `|`; `?` stands for a letter or a digit."""

    country: str
    name: str
    check: str | Check
    alone: str = ""
    near: str = ""

    def forms(self) -> Iterator[tuple[str, bool]]:
        """Yield each form, and whether it passes alone."""
        for forms, alone in ((self.alone, True), (self.near, False)):
            for form in forms.split("|"):
                yield from ((each, alone) for each in _spelt(form) if each)

    def valid(self, number: str) -> bool:
        check = import_module(f"stdnum.{self.check}").is_valid if isinstance(self.check, str) else self.check
        return bool(check(number))


def _spelt(form: str) -> list[str]:
    head, wild, tail = form.partition("?")
    return [head + char + rest for char in "9A" for rest in _spelt(tail)] if wild else [form]


class _Forms:
    """The forms of rows, by their first characters and their length."""

    def __init__(self, rows: Sequence[Number], *, near: bool) -> None:
        self.table: dict[str, list[tuple[Number, bool]]] = {}
        for row in rows:
            for form, alone in row.forms():
                if alone or near:
                    self.table.setdefault(form, []).append((row, alone))
        self.chars_max = max(map(len, self.table), default=0)
        lengths: dict[str, set[int]] = {}
        for form in self.table:
            lengths.setdefault(form[:_HEAD_CHARS], set()).add(len(form))
        self._lengths = {head: sorted(each, reverse=True) for head, each in lengths.items()}

    def of(self, shape: str) -> Iterator[tuple[int, list[tuple[Number, bool]]]]:
        """Yield the length and the rows of each form that `shape` begins with, longest first."""
        for length in self._lengths.get(shape[:_HEAD_CHARS], ()):
            if fits := self.table.get(shape[:length]):
                yield length, fits


def number_scan(rows: Sequence[Number], words: Sequence[str]) -> Scan:
    """Return a scan for the numbers of `rows`. `words`: one of them stands near a number that does not pass alone.

    Where several forms fit, the longest valid one counts.
    """
    every, alone_only = _Forms(rows, near=True), _Forms(rows, near=False)
    anchors, context = Anchors(words), context_of(words)

    def score_of(text: str, start: int, end: int, number: str, fits: list[tuple[Number, bool]]) -> float:
        if any(alone and row.valid(number) for row, alone in fits):
            return ALONE_SCORE
        near = stands_near(context, text, start, end) and any(row.valid(number) for row, alone in fits if not alone)
        return NEAR_SCORE if near else 0.0

    def scan(text: str) -> Iterator[Hit]:
        forms = every if anchors.may_occur(text) else alone_only
        done = 0
        for start in _starts(text) if forms.table else ():
            if start < done:
                continue
            plain = text[start : start + forms.chars_max].translate(_PLAIN).upper()
            for length, fits in forms.of(plain.translate(_SHAPE)):
                number, end = plain[:length], start + length
                if _GOES_ON.match(text, end) or len(set(number) & set(_DIGITS)) < 2:
                    continue
                if " " in number and _in_longer_row(text, start, end):
                    continue
                if score := score_of(text, start, end, number, fits):
                    yield Hit(start, end, score)
                    done = end
                    break

    return scan


def _starts(text: str) -> Iterator[int]:
    """Yield where a number may start: at a run of digits, and at up to four letters before it."""
    for run in _RUN.finditer(text):
        start = run.start()
        if letters := _LETTERS_BEFORE.search(text, max(0, start - _HEAD_CHARS - 2), start):
            yield letters.start()
        if start == 0 or not (text[start - 1].isalnum() or text[start - 1] == "_"):
            yield start


def _in_longer_row(text: str, start: int, end: int) -> bool:
    """Whether more digit groups stand beside groups that spaces separate."""
    return (start > 1 and text[start - 1].isspace() and text[start - 2].isdecimal()) or (
        text[end : end + 1].isspace() and text[end + 1 : end + 2].isdecimal()
    )


def _chinese(number: str) -> bool:
    """As `ric.is_valid`, which raises KeyError for an unknown county. Birth years begin with 19 or 20."""
    if number[6:8] not in ("19", "20"):
        return False
    try:
        ric.get_birth_date(number)
    except ValidationError:
        return False
    return bool(number[-1] == ric.calc_check_digit(number))


def _german_insurance(number: str) -> bool:
    """Whether the check digit of a Krankenversichertennummer (a letter and nine digits) is valid."""
    digits = f"{ord(number[0]) - 64:02d}{number[1:]}"
    total = sum(sum(divmod(int(digit) * (1 + place % 2), 10)) for place, digit in enumerate(digits[:-1]))
    return total % 10 == int(digits[-1])


def _polish_account(number: str) -> bool:
    return iban_valid("PL" + number.replace(" ", ""))


def _imei(number: str) -> bool:
    """Whether the check digit, the one of payment cards, is valid. One number in ten has it by chance."""
    return luhn("".join(filter(str.isdecimal, number)))


NATIONAL_NUMBERS = (
    Number("AT", "Sozialversicherungsnummer", "at.vnr", near="9999 999999|9999999999"),
    Number("BA", "JMBG", "si.emso", near="9999999999999"),
    Number("BE", "rijksregisternummer", "be.nn", alone="99.99.99-999.99|999999-999-99", near="99999999999"),
    Number("BE", "identiteitskaart", "be.eid", alone="999-9999999-99"),
    Number("BG", "EGN", "bg.egn", near="9999999999"),
    Number("BG", "LNC", "bg.pnf", near="9999999999"),
    Number("BR", "CPF", "br.cpf", alone="999.999.999-99", near="99999999999|999999999-99"),
    Number("CH", "AHV", "ch.ssn", alone="999.9999.9999.99|9999999999999|999 9999 9999 99"),
    Number("CL", "RUT", "cl.rut", near="99.999.999-?|9.999.999-?|99999999-?|9999999-?"),
    Number("CN", "resident identity card", _chinese, alone="99999999999999999?"),
    Number("CR", "cédula", "cr.cpf", near="9-9999-9999|99-9999-9999"),
    Number("CZ", "rodné číslo", "cz.rc", alone="999999/9999", near="999999/999|9999999999"),
    Number("DK", "CPR", "dk.cpr", near="999999-9999|9999999999"),
    Number("DO", "cédula", "do.cedula", near="999-9999999-9|99999999999"),
    Number("EC", "cédula", "ec.ci", near="9999999999|999999999-9"),
    Number("EE", "isikukood", "ee.ik", near="99999999999"),
    Number("FI", "henkilötunnus", "fi.hetu", alone="999999-999A|999999A999A", near="999999-9999|999999A9999"),
    Number(
        "FR",
        "NIR",
        "fr.nir",
        alone="9 99 99 99 999 999 99|9 99 99 9A 999 999 99|9999999999999 99|999999A999999 99|999999A99999999",
        near="999999999999999",
    ),
    Number("GR", "AMKA", "gr.amka", near="99999999999"),
    Number("HR", "OIB", "hr.oib", near="99999999999"),
    Number("ID", "NIK", "id.nik", near="9999999999999999"),
    Number("IE", "PPS", "ie.pps", near="9999999A|9999999AA|9999999 A|9999999 AA"),
    Number("IL", "mispar zehut", "il.idnr", near="999999999|99999999-9"),
    Number("IN", "voter card", "in_.epic", near="AAA9999999"),
    Number("IS", "kennitala", "is_.kennitala", near="999999-9999|9999999999"),
    Number("JP", "my number", "jp.in_", near="9999 9999 9999|9999-9999-9999|999999999999"),
    Number("KR", "resident registration", "kr.rrn", alone="999999-9999999", near="9999999999999"),
    Number("LT", "asmens kodas", "lt.asmens", near="99999999999"),
    Number("LV", "personas kods", "lv.pvn", near="999999-99999|99999999999"),
    Number("MX", "CURP", "mx.curp", alone="AAAA999999AAAAAA?9"),
    Number("MY", "NRIC", "my.nric", near="999999-99-9999|999999999999"),
    Number("NL", "BSN", "nl.bsn", near="999999999|9999.99.999|9999 99 999|999 999 999"),
    Number("NO", "fødselsnummer", "no.fodselsnummer", alone="99999999999|999999 99999"),
    Number("PE", "CUI", "pe.cui", near="99999999-?|999999999"),
    Number("PK", "CNIC", "pk.cnic", near="99999-9999999-9|9999999999999"),
    Number("PT", "cartão de cidadão", "pt.cc", near="99999999 9 AA9|999999999AA9|99999999 9AA9"),
    Number("RO", "CNP", "ro.cnp", near="9999999999999"),
    Number("SE", "personnummer", "se.personnummer", near="999999-9999|99999999-9999|999999999999|9999999999"),
    Number("SI", "EMŠO", "si.emso", near="9999999999999"),
    Number("SK", "rodné číslo", "sk.rc", alone="999999/9999", near="999999/999|9999999999"),
    Number("TH", "PIN", "th.pin", near="9-9999-99999-99-9|9999999999999"),
    Number("TR", "TC kimlik no", "tr.tckimlik", near="99999999999"),
    Number("ZA", "ID number", "za.idnr", near="9999999999999|999999 9999 99 9"),
)

TAX_NUMBERS = (
    Number("AR", "CUIT", "ar.cuit", alone="99-99999999-9", near="99999999999"),
    Number("AT", "Abgabenkontonummer", "at.tin", near="99-999/9999|99 999/9999|999999999"),
    Number("AU", "ACN", "au.acn", near="999 999 999|999999999"),
    Number("BR", "CNPJ", "br.cnpj", alone="99.999.999/9999-99", near="99999999999999"),
    Number("CA", "BN", "ca.bn", near="999999999|999999999AA9999|99999 9999 AA 9999"),
    Number("CH", "UID", "ch.uid", alone="AAA-999.999.999", near="AAA999999999|AAA-999999999"),
    Number("CO", "NIT", "co.nit", near="999.999.999-9|999999999-9|9999999999"),
    Number("DE", "Steuernummer", "de.stnr", near="99/999/99999|999/999/99999|999/9999/9999|9999999999999"),
    Number("DK", "CVR", "dk.cvr", near="99999999|99 99 99 99"),
    Number("DO", "RNC", "do.rnc", near="999999999|9-99-99999-9"),
    Number("EC", "RUC", "ec.ruc", near="9999999999999"),
    Number("ES", "CIF", "es.cif", near="A99999999|A9999999A|A-99999999|A-9999999A"),
    Number("FI", "Y-tunnus", "fi.ytunnus", near="9999999-9"),
    Number("FR", "SPI", "fr.nif", alone="99 99 999 999 999", near="9999999999999"),
    Number("FR", "SIREN", "fr.siren", near="999 999 999|999999999"),
    Number("FR", "SIRET", "fr.siret", near="999 999 999 99999|99999999999999"),
    Number("GB", "VAT", "gb.vat", near="AA999999999|AA 999999999|AA 999 9999 99|999 9999 99|AA999999999999"),
    Number("GB", "UTR", "gb.utr", near="9999999999|99999 99999"),
    Number("GR", "AFM", "gr.vat", near="999999999"),
    Number("HU", "adószám", "hu.anum", near="99999999"),
    Number("ID", "NPWP", "id.npwp", near="99.999.999.9-999.999|999999999999999"),
    Number("IN", "GSTIN", "in_.gstin", alone="99AAAAA9999A?A?"),
    Number("IT", "partita IVA", "it.iva", near="99999999999"),
    Number("KE", "PIN", "ke.pin", near="A999999999A"),
    Number("KR", "BRN", "kr.brn", near="999-99-99999"),
    Number("MX", "RFC", "mx.rfc", near="AAAA999999???|AAA999999???|AAAA-999999-???"),
    Number("NO", "organisasjonsnummer", "no.orgnr", near="999 999 999|999999999"),
    Number("NZ", "IRD", "nz.ird", near="99-999-999|999-999-999|999999999"),
    Number("PE", "RUC", "pe.ruc", near="99999999999"),
    Number("PL", "NIP", "pl.nip", near="999-999-99-99|999-99-99-999|999 999 99 99|9999999999"),
    Number("PL", "REGON", "pl.regon", near="999999999|99999999999999"),
    Number("PT", "NIF", "pt.nif", near="999999999|999 999 999|999.999.999"),
    Number("RO", "CUI", "ro.cui", near="99999999|9999999"),
    Number("RU", "INN", "ru.inn", near="999999999999|9999999999"),
    Number("SE", "organisationsnummer", "se.orgnr", near="999999-9999"),
    Number("TR", "VKN", "tr.vkn", near="9999999999"),
    Number("UA", "RNTRC", "ua.rntrc", near="9999999999"),
    Number("US", "EIN", "us.ein", near="99-9999999"),
    Number("UY", "RUT", "uy.rut", near="999999999999|99-999999-999-9"),
    Number("VE", "RIF", "ve.rif", near="A-99999999-9|A999999999"),
    Number(
        "EU",
        "VAT",
        "eu.vat",
        near=(
            "AA99999999|AA999999999|AA9999999999|AA99999999999|AA999999999999|AAA99999999|AAA9999999?|AA9999999A|"
            "AA9999999AA|AA999999999A99|AA 999999999|AA 999 999 999|AA?9999999999|AA?? 999999999|AA??999999999|"
            "AA 99999999999|AA 9999999999|AA 9999.999.999|AA9999.999.999|AA 999999999A99|AA 99999999"
        ),
    ),
)

ACCOUNTS = (
    Number("AR", "CBU", "ar.cbu", alone="9999999999999999999999", near="99999999 99999999999999"),
    Number("CZ", "account", "cz.bankaccount", near="99-9999999999/9999|999999-9999999999/9999|9999999999/9999"),
    Number("ES", "CCC", "es.ccc", alone="9999-9999-99-9999999999|9999 9999 99 9999999999", near="99999999999999999999"),
    Number("NO", "account", "no.kontonr", near="9999.99.99999|9999 99 99999|99999999999"),
    Number("NZ", "account", "nz.bankaccount", near="99-9999-9999999-99|99-9999-9999999-999"),
    Number("PL", "NRB", _polish_account, alone="99 9999 9999 9999 9999 9999 9999|99999999999999999999999999"),
)

HEALTH_NUMBERS = (
    Number("CA", "British Columbia PHN", "ca.bc_phn", near="9999999999|9999 999 999"),
    Number("DE", "KVNR", _german_insurance, near="A999999999"),
)

DEVICES = (Number("", "IMEI", _imei, near="99-999999-999999-9|999999999999999|999999 99 999999 9|99 999999 999999 9"),)
