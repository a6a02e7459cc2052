"""Values that a label names, in eight languages, and texts with labels alone."""

import re

from table_kit import texts

from core.text.policy import ENTITIES, INDIRECT, MaskPolicy
from core.text.sanitize import sanitize

# type = a value | a label of it in each language
LABELLED = """
PASSPORT = C01X00T47 | passport no. | Reisepass-Nr.: | numéro de passeport | pasaporte n.º | passaporto n. |
    paspoortnummer | passaporte nº | nr paszportu
DRIVER_LICENSE = B072RRE2I55 | driver's license | Führerschein Nr. | permis de conduire n° | carnet de conducir |
    patente di guida | rijbewijs | carta de condução | prawo jazdy
MEDICAL_RECORD_NUMBER = 00482913 | MRN | Patientennummer | dossier médical | historia clínica | cartella clinica |
    patiëntnummer | processo clínico | numer pacjenta
HEALTH_INSURANCE_NUMBER = A123456780 | health insurance number | Versichertennummer | carte vitale | tarjeta sanitaria |
    tessera sanitaria | verzekerdennummer | número de utente | numer ubezpieczenia
BANK_ACCOUNT = 48271930 | account number | Kontonummer | compte bancaire | número de cuenta | conto corrente |
    rekeningnummer | número da conta | numer konta
BANK_ROUTING = 37040044 | routing number | Bankleitzahl | code banque | código de banco | ABI | bankcode |
    código do banco | numer rozliczeniowy
SWIFT_CODE = DEUTDEFF | SWIFT code | BIC: | code BIC | código SWIFT | codice BIC | SWIFT-code | código BIC | kod SWIFT
LICENSE_PLATE = M-AB 1234 | license plate | Kennzeichen | plaque d'immatriculation | matrícula | targa | kenteken |
    placa | nr rejestracyjny
VIN = WVWZZZ1JZXW000001 | VIN | Fahrgestellnummer | numéro de châssis | bastidor | telaio | chassisnummer | chassi |
    numer nadwozia
IMEI = 352099001761481 | IMEI | IMEI-Nummer | numéro IMEI | número IMEI | numero IMEI | IMEI: | IMEI = | numer IMEI
EMPLOYEE_ID = E-20391 | employee ID | Personalnummer | matricule | número de empleado | matricola | personeelsnummer |
    funcionário n.º | nr pracownika
CUSTOMER_ID = HX-99-1203 | policy no. | Kundennummer | numéro de client | número de cliente | codice cliente |
    klantnummer | apólice n.º | nr klienta
CASE_NUMBER = 4471-0815/23 | case number | Aktenzeichen | numéro de rôle | rollo de apelación | fascicolo | zaaknummer |
    inquérito | sygnatura akt
POSTCODE = 99084 | zip code | Postleitzahl | code postal | código postal | codice postale | postcode | código postal |
    kod pocztowy
NATIONAL_ID = X4829 1730 | identity card | Ausweisnummer | carte d'identité | cédula de identidad | carta d'identità |
    identiteitskaart | bilhete de identidade | dowód osobisty
TAX_ID = 48/291/7300 | tax number | Steuernummer | numéro fiscal | identificación fiscal | partita IVA | btw-nummer |
    contribuinte | NIP
"""
LABELS = {
    entity: tuple(cells.split(" | ", 1))
    for entity, cells in (line.split(" = ", 1) for line in texts(LABELLED.replace("|\n   ", "|")))
}
# A type and its value stand between `«` and `»`.
SENTENCES = """
Passnummer: «PASSPORT C01X00T47» || my passport no. is «PASSPORT 533401234»
numero de passeport «PASSPORT 12AB34567» || numer paszportu «PASSPORT EA 1234567»
Mitarbeiternummer «EMPLOYEE_ID 00412-B» || staff ID «EMPLOYEE_ID E-20391» left
Fuehrerscheinnummer lautet «DRIVER_LICENSE B072RRE2I55» || matrícula «LICENSE_PLATE 1234 BCD» fue
reg. «LICENSE_PLATE AB12 CDE» was || kennzeichen «LICENSE_PLATE m-ab 1234»
MRNs «MEDICAL_RECORD_NUMBER 00482913», «MEDICAL_RECORD_NUMBER 00482914» and «MEDICAL_RECORD_NUMBER 00482915»
The passport of Maria Keller is «PASSPORT C01X00T47».
sa carte vitale indique le numéro «HEALTH_INSURANCE_NUMBER 1234567890»
{"employee_id": "«EMPLOYEE_ID E-20391»", "customerId": «CUSTOMER_ID 84213»} || | Passport | «PASSPORT C01X00T47» |
sort code «BANK_ROUTING 12-34-56», account number «BANK_ACCOUNT 12345678»
SWIFT: «SWIFT_CODE CHASUS33» or «SWIFT_CODE COBADEFFXXX» || The car «VIN 1M8GDM9AXKP042788» was sold.
See IMEI «IMEI 35-209900-176148-1». || Pay «BANK_ACCOUNT 61 1090 1014 0000 0712 1981 2874» today
"""


def shown(text: str, **options) -> str:
    return sanitize(text, MaskPolicy(**options), "class_marker").text


def test_every_type_with_words_in_all_languages_has_a_label_in_each():
    others = {"SECRET", "PASSWORD", "USERNAME", "DATE_OF_BIRTH", "AGE"}  # test_credential_forms.py, test_languages.py
    others |= {*INDIRECT}  # test_indirect_identifiers.py
    assert LABELS.keys() == {name for name, entity in ENTITIES.items() if entity.by_words} - others
    assert all(len(labels.split(" | ")) == 8 for _, labels in LABELS.values())


def test_a_value_after_its_label_is_hidden_and_the_label_stays():
    for entity in LABELS:
        for frame in ["{} {}", "{}: {}.", "... ({} {}), ...", "{}\n{}\n"]:
            value, labels = LABELS[entity]
            for label in labels.split(" | "):
                for written in (label, label.upper()):
                    assert shown(frame.format(written, value)) == frame.format(written, f"[{entity}]"), label


def test_sentences():
    for sentence in texts(SENTENCES):
        text, expected = re.sub("«[A-Z_]+ (.*?)»", r"\1", sentence), re.sub("«([A-Z_]+) .*?»", r"[\1]", sentence)
        assert shown(text) == expected


def test_labels_without_a_value_hide_nothing():
    for text in texts("""
        passport number is required || A passport number is required by 2024, not before 01.02.2023.
        The BUSINESS PASSWORD of the SWIFT DOCUMENT; SWIFT BUSINESS near BIC and IBAN
        Customer satisfaction rose by 4.5 % to 812 points; 1203 members joined.
        The contract costs 12500 EUR, account 2 of 3, policy of the year 2023.
        La matrícula cuesta 1200 euros. La cuenta asciende a 12500 euros.
        My passport is lost. 533401234 people live there. || MRN, SSN and IBAN are missing. Employee count: 20391.
        Das Kennzeichen der Zeit um 1900 war der Bau von 300 Häusern.
        patent US1234567 and part AB-123-CD fit; commit 9fceb02d0ae598e95dc970b74767f19372d61af8
        The registration opens on 5 May 2024. || e20391@example
    """):
        labelled = tuple(LABELS)
        assert shown(text, entities=labelled) == text


def test_a_value_is_hidden_wherever_it_stands_in_a_long_text():
    filler = "Nothing to say here, and nothing there, for many words in a row. " * 400
    text = f"E-20391 wrote. {filler} Staff ID E-20391 signed. {filler} Then E-20391 left, XE-20391 and E-203911 stayed."
    result = shown(text)
    assert result.count("[EMPLOYEE_ID]") == 3
    assert "XE-20391 and E-203911 stayed" in result


def test_machine_readable_lines_need_their_check_digits():
    passport = "P<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<\nL898902C36UTO7408122F1204159ZE184226B<<<<<10"
    card = "I<UTOD231458907<<<<<<<<<<<<<<<\n7408122F1204159UTO<<<<<<<<<<<6\nERIKSSON<<ANNA<MARIA<<<<<<<<<<"
    assert shown(passport) == "[PASSPORT]\n[PASSPORT]"
    assert shown(card) == "[PASSPORT]\n[PASSPORT]\n[PASSPORT]"
    assert shown(passport.replace("7408122", "7408123"), entities=("PASSPORT",)).count("[PASSPORT]") == 1
    assert shown("<" * 44 + "\n" + "A" * 44, entities=("PASSPORT",)) == "<" * 44 + "\n" + "A" * 44


def test_each_type_has_a_surrogate_of_its_shape():
    for entity, (value, labels) in LABELS.items():
        label = labels.split(" | ")[0]
        result = sanitize(f"{label} {value}", MaskPolicy(), "surrogate")
        fresh = result.text.removeprefix(f"{label} ")
        assert fresh != value, entity
        assert [char.isalnum() for char in fresh] == [char.isalnum() for char in value], entity
