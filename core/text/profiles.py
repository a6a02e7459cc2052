"""Profiles: named sets of entities for `mask.profile`.

A profile is a starting point for a rule set, and no proof that a text meets it: recognition misses some, and rules such
as HIPAA's cover more than text (faces, fingerprints). A new entity joins a profile in one of the groups below.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

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
BANK_ACCOUNTS = ("IBAN_CODE", "US_BANK_NUMBER", "ABA_ROUTING_NUMBER", "CRYPTO")
NATIONAL_NUMBERS = (
    *("US_SSN", "US_ITIN", "UK_NINO", "CA_SIN", "AU_ABN", "AU_TFN", "IN_AADHAAR", "IN_PAN", "SG_NRIC_FIN"),
    *("ES_NIF", "ES_NIE", "IT_FISCAL_CODE", "PL_PESEL", "DE_TAX_ID"),
)
DOCUMENTS = ("US_PASSPORT", "UK_PASSPORT", "US_DRIVER_LICENSE")
HEALTH_NUMBERS = ("US_MBI", "US_NPI", "MEDICAL_LICENSE", "UK_NHS", "AU_MEDICARE")

PROFILES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        DEFAULT: tuple(name for name, entity in ENTITIES.items() if entity.default),
        # the 18 identifiers of 45 CFR 164.514(b)(2), as far as text holds them
        "hipaa": (
            *(*NAMES, *PLACES, *CONTACT, *ONLINE, *BIRTH, *AGES_AND_DATES, *CARDS, *BANK_ACCOUNTS),
            *(*NATIONAL_NUMBERS, *DOCUMENTS, *HEALTH_NUMBERS),
        ),
        # what identifies a natural person directly or by an identifier, Article 4(1)
        "gdpr": (
            *(*NAMES, *PLACES, *CONTACT, *ONLINE, *BIRTH, *CARDS, *BANK_ACCOUNTS),
            *(*NATIONAL_NUMBERS, *DOCUMENTS, *HEALTH_NUMBERS),
        ),
        # cardholder data and what authenticates: PCI DSS
        "pci": ("PERSON", *CARDS, *BANK_ACCOUNTS, *SECRETS),
        "secrets": SECRETS,
    }
)
