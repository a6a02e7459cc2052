"""Medical record numbers and health insurance numbers: after a label, or valid in a country's form near such a word."""

from __future__ import annotations

from core.text.labelled import GROUPED_CODE, Label, Value, labelled_scan, phrases
from core.text.recogniser import Recogniser
from core.text.written_numbers import Number, number_scan

_RECORD = phrases(
    "MRN|MRNs|medical record|medical record number|medical record no|medical records number|health record number|"
    "chart no|chart number|chart #|hospital number|hospital no|NHC|IPP|prontuário|Krankenaktennummer|Krankenakte|"
    "Patientenakte|Fallnummer|Fall-Nr|Aufnahmenummer|dossier médical|dossier patient|historia clínica|"
    "expediente clínico|expediente médico|cartella clinica|medisch dossier|dossiernummer|processo clínico|"
    "ficha clínica|historia choroby|dokumentacji medycznej|karty pacjenta|numer kartoteki"
)
_PATIENT = phrases("patient|patients|Patienten|paciente|paziente|patiënten|patiënt|pacjenta|pacjent")
_INSURANCE = phrases(
    "health insurance|health insurance number|health insurance id|health card|health card number|health plan id|"
    "insurance id|insurance member id|insurance number|insurance no|Medicare|Medicare number|Medicaid|"
    "Medicaid id|EHIC|Versichertennummer|Versicherten-Nr|Versichertennr|Vers.-Nr|Vers-Nr|Krankenversicherungsnummer|"
    "Krankenversichertennummer|Krankenversicherten-Nr|Krankenkassennummer|KVNR|KV-Nr|KV-Nummer|Gesundheitskarte|"
    "eGK|numéro d'assuré|numéro d’assuré|n° d'assuré|assurance maladie|carte vitale|mutuelle|"
    "numéro d'adhérent mutuelle|tarjeta sanitaria|número de afiliación|seguro médico|seguro de salud|CIP|"
    "tessera sanitaria|assicurazione sanitaria|numero di tessera sanitaria|zorgverzekering|"
    "zorgverzekeringsnummer|verzekerdennummer|verzekeringsnummer|cartão de saúde|número de utente|utente do SNS|"
    "SNS|carteirinha|cartão nacional de saúde|CNS|plano de saúde|ubezpieczenia zdrowotnego|numer ubezpieczenia|"
    "nr ubezpieczenia|numer ubezpieczonego|karta EKUZ|EKUZ"
)
_INSURANCE_VALUE = Value(r"(?=(?:[^\W_][-/. ]{0,2}){6,22}\Z)(?=(?:\D*\d){5})[A-Za-z0-9/. -]+", spaced=True)


def german_insurance(number: str) -> bool:
    """Whether the check digit of a Krankenversichertennummer (a letter and nine digits) is valid."""
    digits = f"{ord(number[0]) - 64:02d}{number[1:]}"
    total = sum(sum(divmod(int(digit) * (1 + place % 2), 10)) for place, digit in enumerate(digits[:-1]))
    return total % 10 == int(digits[-1])


_NUMBERS = (
    Number("CA", "British Columbia PHN", "ca.bc_phn", near="9999999999|9999 999 999"),
    Number("DE", "KVNR", german_insurance, near="A999999999"),
)


def recognisers() -> tuple[Recogniser, ...]:
    record, insurance = Label(names=_RECORD, nouns=_PATIENT), Label(names=_INSURANCE)
    return (
        Recogniser("MEDICAL_RECORD_NUMBER", labelled_scan(record, GROUPED_CODE), digits_min=3, copies=True),
        Recogniser("HEALTH_INSURANCE_NUMBER", labelled_scan(insurance, _INSURANCE_VALUE), digits_min=5, copies=True),
        Recogniser("HEALTH_INSURANCE_NUMBER", number_scan(_NUMBERS, _INSURANCE), digits_min=9, copies=True),
    )
