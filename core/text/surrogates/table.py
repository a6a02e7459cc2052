"""Type -> the function that draws its surrogate. A type without a row keeps its shape: digit for digit, letter for
letter, and its check digits are not guaranteed.

A function takes the original and a `Draw`, whose attempts are counted. Beyond `LONG_DRAWS` attempts it widens its
range, so that a document that contains a whole small range still ends. The masked strings of a document give the terms
of all its surrogates.
"""

from collections.abc import Callable, Iterable, Sequence

from core.text.surrogates import dates, names, numbers, places
from core.text.surrogates.draw import LETTER_DRAWS, Document, Draw, Originals, alphanumerics, same_shape, secret
from core.text.surrogates.names import LOCALES, book_of

Surrogate = Callable[[str, Draw], str]

SURROGATES: dict[str, Surrogate] = {
    "PERSON": names.person,
    "ORGANIZATION": names.organization,
    "LOCATION": places.place,
    "DATE_TIME": dates.shifted,
    "DATE_OF_BIRTH": dates.shifted,
    "AGE": dates.age,
    "EMAIL_ADDRESS": names.email,
    "USERNAME": names.user,
    "URL": names.url,
    "PHONE_NUMBER": numbers.phone,
    "IP_ADDRESS": numbers.ip_address,
    "MAC_ADDRESS": numbers.mac_address,
    "IMEI": numbers.imei,
    "UUID": numbers.random_uuid,
    "CRYPTO": numbers.crypto,
    "CREDIT_CARD": numbers.card,
    "IBAN_CODE": numbers.iban,
    "SWIFT_CODE": numbers.swift_code,
    "ABA_ROUTING_NUMBER": numbers.checked("us.rtn"),
    "BANK_ROUTING": numbers.checked("us.rtn"),
    "VIN": numbers.vin,
    "COORDINATE": numbers.coordinate,
    "EMPLOYEE_ID": numbers.kept_prefix,
    "CUSTOMER_ID": numbers.kept_prefix,
    "MEDICAL_RECORD_NUMBER": numbers.kept_prefix,
    "SECRET": secret,
    "PASSWORD": secret,
    "NATIONAL_ID": numbers.national_id,
    "TAX_ID": numbers.tax_id,
    "US_SSN": numbers.ssn,
    "US_ITIN": numbers.itin,
    "US_NPI": numbers.npi,
    "US_MBI": numbers.medicare_beneficiary,
    "UK_NHS": numbers.nhs,
    "UK_NINO": numbers.nino,
    "CA_SIN": numbers.checked("ca.sin"),
    "AU_ABN": numbers.checked("au.abn"),
    "AU_TFN": numbers.checked("au.tfn"),
    "IN_AADHAAR": numbers.checked("in_.aadhaar"),
    "IN_PAN": numbers.checked("in_.pan"),
    "ES_NIF": numbers.checked("es.dni", "es.nif"),
    "ES_NIE": numbers.checked("es.nie"),
    "IT_FISCAL_CODE": numbers.checked("it.codicefiscale"),
    "PL_PESEL": numbers.checked("pl.pesel"),
    "DE_TAX_ID": numbers.german_tax_id,
}
# Types whose separators and letter case do not matter: two writings of one number have the same surrogate.
NUMBERS = frozenset(SURROGATES) - {
    *("PERSON", "ORGANIZATION", "LOCATION", "DATE_TIME", "DATE_OF_BIRTH", "AGE", "EMAIL_ADDRESS", "USERNAME"),
    *("URL", "SECRET", "PASSWORD", "COORDINATE", "IP_ADDRESS", "CRYPTO"),
}
EXACT = frozenset({"SECRET", "PASSWORD", "CRYPTO"})


def identity(type_: str, original: str) -> str:
    """Return what two originals have in common that have the same surrogate, apart from its form."""
    if type_ in EXACT:
        return original
    folded = original.casefold()
    return alphanumerics(folded) if type_ in NUMBERS else " ".join(folded.split())


def first_attempt(type_: str, original: str, known: Originals) -> int:
    """Return the first attempt that is worth a draw: one that gives letters, if the numbers of the original's form are
    used up and its type has no other form."""
    shaped = SURROGATES.get(type_, numbers.shape) in (numbers.shape, numbers.kept_prefix, secret)
    return LETTER_DRAWS if shaped and known.uses_up(original) else 0


def fake(type_: str, original: str, draw: Draw) -> str:
    """Draw one value of the type. It may equal an original by chance; the caller then tries the next attempt."""
    if draw.attempt >= LETTER_DRAWS:
        return same_shape(original, draw)
    return SURROGATES.get(type_, numbers.shape)(original, draw)


DEFAULT_LANGUAGE = "en"
DATES = ("DATE_TIME", "DATE_OF_BIRTH")
PERSON = "PERSON"


def surrogate_language(language: str | None) -> str:
    """Return the language that surrogates are in: English for one that is not supported or not known."""
    return language if language in LOCALES else DEFAULT_LANGUAGE


def document_of(values: Iterable[tuple[str, str]], strings: frozenset[str], *, key: bytes, language: str) -> Document:
    """Return the terms of a document. `values`: its types and masked strings. `strings`: as in `Document`."""
    found = list(values)
    bare = Document(key, language, strings)

    def draw(*parts: str, attempt: int) -> Draw:
        return Draw(bare, *parts, attempt=attempt)

    known = Originals(strings)
    names = book_of(_of(found, (PERSON,)), language, draw, known.repeated_by)
    shift = dates.shift_of(_of(found, DATES), language, draw, known)
    return Document(key, language, strings, names, shift)


def _of(values: Sequence[tuple[str, str]], types: tuple[str, ...]) -> list[str]:
    return [original for type_, original in values if type_ in types]
