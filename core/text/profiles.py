"""Profiles: named sets of entities for `mask.profile`.

A profile is a starting point for a rule set, and no proof that a text meets it: recognition misses some, and rules such
as HIPAA's cover more than text (faces, fingerprints). A new entity joins a profile in one of the groups below.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from core.errors import InvalidInput
from core.text.policy import ENTITIES

DEFAULT = "default"

# Each group is a kind of identifier that several rules name. The profiles below are made of groups.
NAMES = ("PERSON", "LOCATION")  # organisations identify no person
PLACES = ("COORDINATE", "UK_POSTCODE")
CONTACT = ("EMAIL_ADDRESS", "PHONE_NUMBER")
ONLINE = ("URL", "IP_ADDRESS", "MAC_ADDRESS", "USERNAME", "UUID")
SECRETS = ("SECRET", "PASSWORD")
BIRTH = ("DATE_OF_BIRTH",)
AGES_AND_DATES = ("AGE", "DATE_TIME")
CARDS = ("CREDIT_CARD",)
BANK_ACCOUNTS = (
    "IBAN_CODE",
    "BANK_ACCOUNT",
    "BANK_ROUTING",
    "SWIFT_CODE",
    "US_BANK_NUMBER",
    "ABA_ROUTING_NUMBER",
    "CRYPTO",
)
NATIONAL_NUMBERS = (
    *("NATIONAL_ID", "TAX_ID"),
    *("US_SSN", "US_ITIN", "UK_NINO", "CA_SIN", "AU_ABN", "AU_TFN", "IN_AADHAAR", "IN_PAN", "SG_NRIC_FIN"),
    *("ES_NIF", "ES_NIE", "IT_FISCAL_CODE", "PL_PESEL", "DE_TAX_ID"),
)
DOCUMENTS = ("PASSPORT", "DRIVER_LICENSE", "US_PASSPORT", "UK_PASSPORT", "US_DRIVER_LICENSE")
HEALTH_NUMBERS = (
    "MEDICAL_RECORD_NUMBER",
    "HEALTH_INSURANCE_NUMBER",
    "US_MBI",
    "US_NPI",
    "MEDICAL_LICENSE",
    "UK_NHS",
    "AU_MEDICARE",
)
VEHICLES_AND_DEVICES = ("LICENSE_PLATE", "VIN", "IMEI")
BUSINESS_NUMBERS = ("EMPLOYEE_ID", "CUSTOMER_ID")

PROFILES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        DEFAULT: tuple(name for name, entity in ENTITIES.items() if entity.default),
        # the 18 identifiers of 45 CFR 164.514(b)(2), as far as text holds them
        "hipaa": (
            *(*NAMES, *PLACES, *CONTACT, *ONLINE, *BIRTH, *AGES_AND_DATES, *CARDS, *BANK_ACCOUNTS),
            *(*NATIONAL_NUMBERS, *DOCUMENTS, *HEALTH_NUMBERS, *VEHICLES_AND_DEVICES, *BUSINESS_NUMBERS),
        ),
        # what identifies a natural person directly or by an identifier, Article 4(1)
        "gdpr": (
            *(*NAMES, *PLACES, *CONTACT, *ONLINE, *BIRTH, *CARDS, *BANK_ACCOUNTS),
            *(*NATIONAL_NUMBERS, *DOCUMENTS, *HEALTH_NUMBERS, *VEHICLES_AND_DEVICES, *BUSINESS_NUMBERS),
        ),
        # cardholder data and what authenticates: PCI DSS
        "pci": ("PERSON", *CARDS, *BANK_ACCOUNTS, *SECRETS),
        "secrets": SECRETS,
    }
)


def entities_of(profile: str | None, entities: tuple[str, ...], *, techniques: tuple[str, ...]) -> tuple[str, ...]:
    """Return the entities of a `MaskPolicy`: those named and those of the profile. Empty: the default ones.

    Raises InvalidInput, which lists the supported values, for a profile that does not exist, and for one without the
    technique `entity`.
    """
    if profile is None:
        return entities
    if profile not in PROFILES:
        raise InvalidInput(f"The profile is one of: {', '.join(PROFILES)}.", field="mask.profile")
    if "entity" not in techniques:
        raise InvalidInput("A profile needs the technique `entity`.", field="mask.profile")
    if profile == DEFAULT and not entities:
        return ()
    wanted = {*entities, *PROFILES[profile]}
    others = tuple(name for name in entities if name not in ENTITIES)
    return (*(name for name in ENTITIES if name in wanted), *others)
