"""Types whose values a label names, or that are written in a form with check digits near such a word.

Each row of `ROWS` is one way to find a type: `Labelled` values after a label, `Checked` numbers of a country with valid
check digits, alone or near a word for such a number, and `Formed` values, which need such a word nearby if their score
is low. A labelled national number scores less than a valid number of a type of its own (`PL_PESEL`, `ES_NIF`), which
therefore gives the type where both fit.
"""

from typing import NamedTuple

import regex  # type: ignore[import-untyped]

from core.text.labelled import GROUPED_CODE, LABELLED_SCORE, LETTERED_CODE, Label, LabelledValue, labelled_scan, phrases
from core.text.recogniser import Pattern, Recogniser, context_of, pattern_scan
from core.text.recognisers.numbers import machine_readable
from core.text.recognisers.written_numbers import (
    ACCOUNTS,
    DEVICES,
    HEALTH_NUMBERS,
    NATIONAL_NUMBERS,
    TAX_NUMBERS,
    Number,
    number_scan,
)


class Labelled(NamedTuple):
    """Values after a label: one of `names`, or of `nouns` beside a word for "number"."""

    entity: str
    digits_min: int
    value: LabelledValue
    names: tuple[str, ...] = ()
    nouns: tuple[str, ...] = ()
    score: float = LABELLED_SCORE

    def recogniser(self) -> Recogniser:
        scan = labelled_scan(Label(names=self.names, nouns=self.nouns), self.value, score=self.score)
        return Recogniser(self.entity, scan, digits_min=self.digits_min, copies=True)


class Checked(NamedTuple):
    """Numbers in their written forms. One of `words` stands near a number that does not pass alone."""

    entity: str
    digits_min: int
    numbers: tuple[Number, ...]
    words: tuple[str, ...]

    def recogniser(self) -> Recogniser:
        return Recogniser(self.entity, number_scan(self.numbers, self.words), digits_min=self.digits_min, copies=True)


class Formed(NamedTuple):
    """Values of one of `forms`, near one of `words` if the score of the form is below the threshold."""

    entity: str
    digits_min: int
    forms: tuple[Pattern, ...]
    words: tuple[str, ...] = ()

    def recogniser(self) -> Recogniser:
        return Recogniser(self.entity, pattern_scan(self.forms), context_of(self.words), digits_min=self.digits_min)


_EMPLOYEE_NOUNS = phrases(
    "employee|employees|emp|staff|personnel|badge|payroll|worker|Mitarbeiter|Mitarbeiterin|Mitarbeitenden|"
    "Personal|Angestellten|Dienstausweis|employé|employée|salarié|salariée|agent|empleado|empleada|trabajador|"
    "trabajadora|dipendente|medewerker|medewerkers|personeels|personeel|werknemer|werknemers|funcionário|"
    "funcionária|colaborador|colaboradora|trabalhador|pracownika|pracowniczy|pracownik|służbowy|ewidencyjny"
)
_EMPLOYEE_NAMES = phrases(
    "Personalnummer|Personal-Nr|matricule|n° matricule|numéro de matricule|matricola|numero di matricola|legajo|"
    "número de legajo|nómina|nº de nómina|staff #|employee #|numer ewidencyjny|matrícula de empleado|"
    "matrícula do funcionário|matricule salarié|matricule employé|matricule agent|matricola dipendente|"
    "matricola aziendale|badge|Dienstausweis|Mitarbeiterausweis|tesserino|personeelspas|identyfikator"
)
_CUSTOMER_NOUNS = phrases(
    "customer|customers|client|clients|cust|member|members|membership|subscriber|subscription|loyalty|"
    "loyalty card|frequent flyer|contract|policy|policyholder|insurance policy|claim|customer account|"
    "client account|Kunden|Mitglieds|Mitglied|Vertrags|Vertrag|Vertragskonto|Versicherungsschein|Versicherungs|Policen|"
    "Police|Abonnenten|Kundenkonto|Kundenkarten|cliente|clientes|abonné|abonnée|adhérent|adhérente|contrat|"
    "police|sociétaire|allocataire|carte de fidélité|socio|socia|abonado|contrato|póliza|tarjeta de socio|"
    "contratto|polizza|tessera|abbonato|klant|klanten|lid|leden|lidmaatschaps|contract|polis|relatie|apólice|"
    "assinante|associado|klienta|klient|członka|członkowski|umowy|polisy|abonenta|karty stałego klienta"
)
_CUSTOMER_NAMES = phrases(
    "Kundennr|Kd.-Nr|KdNr|Vertragsnummer|Versicherungsscheinnummer|Mitgliedsnummer|Policennummer|"
    "Versicherungsnummer|polisnummer|klantnummer|lidnummer|lidmaatschapsnummer|contractnummer|relatienummer|"
    "customer account number|client account number|loyalty card|frequent flyer number"
)
_IMEI = phrases("IMEI|IMEIs|IMEI number|IMEI-Nummer|numéro IMEI|número IMEI|numero IMEI|numer IMEI|IMEISV")
_PASSPORT = phrases(
    "passport|passports|travel document|Reisepass|Reisepässe|Passnummer|Pass-Nr|Pass Nr|Passnr|Passport-Nr|"
    "passeport|pasaporte|passaporto|paspoort|paspoortnummer|passaporte|paszport|paszportu|paszporcie"
)
_LICENCE = phrases(
    "driver's license|driver’s license|drivers license|driver license|driver's licence|driver’s licence|"
    "drivers licence|driver licence|driving licence|driving license|driver's permit|license number|"
    "licence number|DLN|DL|D.L.|Führerschein|Führerscheinnummer|Fahrerlaubnis|permis de conduire|permis B|"
    "permiso de conducir|permiso de conducción|carnet de conducir|licencia de conducir|licencia de conducción|"
    "patente di guida|patente|patente B|rijbewijs|rijbewijsnummer|carta de condução|carteira de motorista|CNH|"
    "carteira de habilitação|carteira nacional de habilitação|prawo jazdy|prawa jazdy"
)
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
_NATIONAL = phrases(
    "national identity number|national id|national id number|national identification number|national identifier|"
    "identity card|identity card number|id card|id card number|identity number|citizen number|resident id|"
    "personal identity code|personal identity number|personal id number|personal identification number|"
    "personal public service number|social insurance number|"
    "Personalausweis|Personalausweisnummer|Ausweisnummer|Ausweis-Nr|Ausweis Nr|Personenkennzahl|Personenkennziffer|"
    "Sozialversicherungsnummer|Sozialversicherungs-Nr|SV-Nummer|SVNR|SV-Nr|Rentenversicherungsnummer|"
    "AHV|AHV-Nummer|AHV-Nr|AVS|numéro AVS|n° AVS|NAVS|"
    "carte d'identité|carte d’identité|carte nationale d'identité|CNI|NIR|sécurité sociale|"
    "numéro de sécurité sociale|n° de sécurité sociale|registre national|numéro national|NISS|INSS|"
    "documento de identidad|documento nacional de identidad|cédula|cédula de identidad|cédula de ciudadanía|CURP|"
    "DNI|RUT|RUN|seguridad social|número de la seguridad social|NUSS|NSS|"
    "carta d'identità|carta d’identità|carta di identità|carta d'identità elettronica|CIE|"
    "BSN|burgerservicenummer|sofinummer|identiteitskaart|identiteitskaartnummer|rijksregisternummer|INSZ|"
    "cartão de cidadão|cartão do cidadão|bilhete de identidade|documento de identidade|carteira de identidade|"
    "RG|CPF|número de segurança social|NISS|"
    "dowód|dowód osobisty|dowodu osobistego|nr dowodu|numer dowodu|dowodu|PPS|PPSN|PPS number|"
    "personnummer|fødselsnummer|CPR|CPR-nummer|CPR-nr|henkilötunnus|HETU|kennitala|isikukood|personas kods|"
    "asmens kodas|rodné číslo|OIB|EMŠO|EMSO|JMBG|CNP|EGN|ЕГН|AMKA|ΑΜΚΑ|TCKN|TC kimlik|TC kimlik no|kimlik no|"
    "Teudat Zehut|NRIC|CNIC|NIK|KTP|Emirates ID|voter ID|voter card"
)
_TAX = phrases(
    "tax id|tax number|tax no|tax reference|tax identification number|tax identifier|taxpayer|taxpayer id|"
    "taxpayer number|taxpayer identification number|TIN|UTR|unique taxpayer reference|EIN|"
    "employer identification number|VAT|VAT id|VAT number|VAT no|VAT registration number|"
    "Steuernummer|Steuer-Nr|St.-Nr|StNr|Steuer-ID|Steueridentifikationsnummer|Steuer-Identifikationsnummer|IdNr|"
    "Umsatzsteuer-ID|Umsatzsteuer-Identifikationsnummer|USt-ID|USt-IdNr|UID|UID-Nummer|MwSt-Nr|MWST-Nummer|"
    "numéro fiscal|n° fiscal|numéro d'identification fiscale|identifiant fiscal|référence fiscale|SPI|NIF|SIREN|"
    "SIRET|TVA|numéro de TVA|n° TVA|TVA intracommunautaire|"
    "número de identificación fiscal|identificación fiscal|número fiscal|CIF|RFC|CUIT|CUIL|NIT|RUC|IVA|"
    "codice fiscale|partita IVA|P. IVA|P.IVA|"
    "fiscaal nummer|btw|btw-nummer|btw-nr|btw-id|ondernemingsnummer|KvK|KvK-nummer|RSIN|"
    "número de contribuinte|contribuinte|número de identificação fiscal|CNPJ|"
    "NIP|numer NIP|REGON|numer identyfikacji podatkowej|identyfikator podatkowy|"
    "organisationsnummer|orgnr|moms|CVR|Y-tunnus|DIČ|IČO|IČ DPH|adószám|CUI|OIB|AFM|ΑΦΜ|INN|ИНН|VKN|vergi no|"
    "GSTIN|GST|ABN|ACN|IRD"
)

_IMEI_VALUE = LabelledValue(
    r"\d{14,16}|\d{2}[ -]?\d{6}[ -]?\d{6}[ -]?\d{1,2}|\d{6}[ -]\d{2}[ -]\d{6}[ -]\d", spaced=True
)
_PASSPORT_VALUE = LabelledValue(
    r"(?=(?:\D*\d){4})(?:[A-Z]{0,3}[ -]?\d{5,9}|[A-Z0-9]{8,10}|\d{2} ?[A-Z]{2} ?\d{5}|\d{2} \d{7})", spaced=True
)
_LICENCE_VALUE = LabelledValue(r"(?=(?:[^\W_][-/. ]{0,2}){5,20}\Z)(?=(?:\D*\d){4})[A-Za-z0-9/. -]+", spaced=True)
_INSURANCE_VALUE = LabelledValue(r"(?=(?:[^\W_][-/. ]{0,2}){6,22}\Z)(?=(?:\D*\d){5})[A-Za-z0-9/. -]+", spaced=True)
_ACCOUNT_VALUE = LabelledValue(
    r"(?=(?:[^\W_][-/. \u00a0]{0,2}){5,30}\Z)(?:[A-Z]{1,2}[ -]?)?\d[\d/. \u00a0-]*", spaced=True
)
_ROUTING_VALUE = LabelledValue(
    r"\d{5,9}|(?!19|20)\d{4}|\d{2}-\d{2}-\d{2}|\d{2} \d{2} \d{2}|\d{3} \d{3} \d{2}|\d{3}-\d{3}|[A-Z]{4}0[A-Z0-9]{6}",
    spaced=True,
    dates=True,
)
_NATIONAL_VALUE = LabelledValue(
    r"(?=(?:[^\W_][-/. \u00a0\u202f]{0,2}){6,20}\Z)(?=(?:\D*\d){5})[A-Za-z0-9/.\u00a0\u202f -]+", spaced=True
)
# Most countries: one to three letters and digits. Germany: letters without vowels among digits. France: 12AB34567.
_PASSPORT_FORMS = (
    Pattern(regex.compile(r"(?<![\w])(?:[A-Z]{1,3}\d{6,8}|\d{2}[A-Z]{2}\d{5})(?![\w]|[-.]\d)"), 0.1),
    Pattern(regex.compile(r"(?<![\w])(?=(?:[A-Z]*\d){3})[CFGHJKLMNPRTVWXYZ][CFGHJKLMNPRTVWXYZ0-9]{8}(?![\w])"), 0.1),
)
# United Kingdom: five letters of the surname, birth date, initials, check characters.
_UK_LICENCE = (
    Pattern(
        regex.compile(r"(?<![\w])[A-Z]{2}[A-Z9]{3}\d[0156]\d[0-3]\d{2}[A-Z][A-Z9]\d[A-Z]{2}(?:[ ]?\d{2})?(?![\w])"), 0.6
    ),
)
_NATIONAL_SCORE = 0.72

ROWS: tuple[Labelled | Checked | Formed, ...] = (
    Labelled("EMPLOYEE_ID", 3, GROUPED_CODE, _EMPLOYEE_NAMES, _EMPLOYEE_NOUNS),
    Labelled("EMPLOYEE_ID", 5, LETTERED_CODE, _EMPLOYEE_NOUNS),
    Labelled("CUSTOMER_ID", 3, GROUPED_CODE, _CUSTOMER_NAMES, _CUSTOMER_NOUNS),
    Labelled("CUSTOMER_ID", 5, LETTERED_CODE, _CUSTOMER_NOUNS),
    Labelled("IMEI", 14, _IMEI_VALUE, _IMEI),
    Checked("IMEI", 14, DEVICES, _IMEI),
    Labelled("PASSPORT", 4, _PASSPORT_VALUE, _PASSPORT),
    Formed("PASSPORT", 3, _PASSPORT_FORMS, _PASSPORT),
    Labelled("DRIVER_LICENSE", 4, _LICENCE_VALUE, _LICENCE),
    Formed("DRIVER_LICENSE", 6, _UK_LICENCE),
    Labelled("MEDICAL_RECORD_NUMBER", 3, GROUPED_CODE, _RECORD, _PATIENT),
    Labelled("HEALTH_INSURANCE_NUMBER", 5, _INSURANCE_VALUE, _INSURANCE),
    Checked("HEALTH_INSURANCE_NUMBER", 9, HEALTH_NUMBERS, _INSURANCE),
    Labelled("BANK_ACCOUNT", 5, _ACCOUNT_VALUE, _ACCOUNT),
    Checked("BANK_ACCOUNT", 10, ACCOUNTS, _ACCOUNT),
    Labelled("BANK_ROUTING", 4, _ROUTING_VALUE, _ROUTING),
    Checked("NATIONAL_ID", 6, NATIONAL_NUMBERS, _NATIONAL),
    Labelled("NATIONAL_ID", 5, _NATIONAL_VALUE, _NATIONAL, score=_NATIONAL_SCORE),
    Checked("TAX_ID", 6, TAX_NUMBERS, _TAX),
    Labelled("TAX_ID", 5, _NATIONAL_VALUE, _TAX, score=_NATIONAL_SCORE),
)


def recognisers() -> tuple[Recogniser, ...]:
    return (*(row.recogniser() for row in ROWS), Recogniser("PASSPORT", machine_readable))
