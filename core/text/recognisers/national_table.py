"""The national identity and tax numbers of countries: one row each.

A form that passes alone has separators or letters, and at most one number in 40 of that form is valid by chance; or it
is a bare number, of which at most one in 1,000 is valid. Numbers with a type of their own (`US_SSN`, `UK_NINO`,
`ES_NIF`, `PL_PESEL`, ...) have no row.
"""

from __future__ import annotations

from stdnum.cn import ric
from stdnum.exceptions import ValidationError

from core.text.written_numbers import Number


def _chinese(number: str) -> bool:
    """As `ric.is_valid`, which raises KeyError for an unknown county. Birth years begin with 19 or 20."""
    if number[6:8] not in ("19", "20"):
        return False
    try:
        ric.get_birth_date(number)
    except ValidationError:
        return False
    return bool(number[-1] == ric.calc_check_digit(number))


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
