"""National identity numbers (`NATIONAL_ID`) and tax numbers (`TAX_ID`) of the countries without a type of their own.

Two ways: a number in a written form of its country with valid check digits (`national_table`), alone or near a word for
such a number; and any code after a label. A labelled find scores less than a valid number of a type of its own
(`PL_PESEL`, `ES_NIF`), which therefore gives the type where both fit.
"""

from __future__ import annotations

from core.text.labelled import Label, Value, labelled_scan, phrases
from core.text.recogniser import Recogniser
from core.text.recognisers.national_table import NATIONAL_NUMBERS, TAX_NUMBERS
from core.text.written_numbers import number_scan

LABELLED_SCORE = 0.72

_NATIONAL_NAMES = phrases(
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
_TAX_NAMES = phrases(
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
_NUMBER = Value(
    r"(?=(?:[^\W_][-/. \u00a0\u202f]{0,2}){6,20}\Z)(?=(?:\D*\d){5})[A-Za-z0-9/.\u00a0\u202f -]+", spaced=True
)


def recognisers() -> tuple[Recogniser, ...]:
    rows = (("NATIONAL_ID", _NATIONAL_NAMES, NATIONAL_NUMBERS), ("TAX_ID", _TAX_NAMES, TAX_NUMBERS))
    built = []
    for entity, names, numbers in rows:
        label = Label(names=names)
        built += [
            Recogniser(entity, number_scan(numbers, names), digits_min=6, copies=True),
            Recogniser(entity, labelled_scan(label, _NUMBER, score=LABELLED_SCORE), digits_min=5, copies=True),
        ]
    return tuple(built)
