"""Generated values of the entity types that a number or a code identifies, and texts that hold none of them."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterator
from importlib import import_module

from faker import Faker

LOCALES = {
    "en": ("en_US", "en_GB"),
    "de": ("de_DE",),
    "fr": ("fr_FR",),
    "es": ("es_ES",),
    "it": ("it_IT",),
    "nl": ("nl_NL",),
    "pt": ("pt_PT", "pt_BR"),
    "pl": ("pl_PL",),
}
LANGUAGES = tuple(LOCALES)

# Country, what the number is called there, its module of stdnum, the form in which it is written.
NUMBERS = (
    ("AT", "Sozialversicherungsnummer", "at.vnr", "#### ######"),
    ("BE", "rijksregisternummer", "be.nn", "##.##.##-###.##"),
    ("BG", "EGN", "bg.egn", "##########"),
    ("BR", "CPF", "br.cpf", "###.###.###-##"),
    ("CH", "AHV-Nummer", "ch.ssn", "756.####.####.##"),
    ("CL", "RUT", "cl.rut", "##.###.###-#"),
    ("CZ", "rodné číslo", "cz.rc", "######/####"),
    ("DK", "CPR-nummer", "dk.cpr", "######-####"),
    ("DO", "cédula", "do.cedula", "###-#######-#"),
    ("EC", "cédula", "ec.ci", "##########"),
    ("EE", "isikukood", "ee.ik", "###########"),
    ("FI", "henkilötunnus", "fi.hetu", "######-###?"),
    ("FR", "numéro de sécurité sociale", "fr.nir", "# ## ## ## ### ### ##"),
    ("GR", "AMKA", "gr.amka", "###########"),
    ("HR", "OIB", "hr.oib", "###########"),
    ("IE", "PPS number", "ie.pps", "#######?"),
    ("IL", "identity number", "il.idnr", "#########"),
    ("IS", "kennitala", "is_.kennitala", "######-####"),
    ("KR", "resident id", "kr.rrn", "######-#######"),
    ("LT", "asmens kodas", "lt.asmens", "###########"),
    ("LV", "personas kods", "lv.pvn", "######-#####"),
    ("MY", "NRIC", "my.nric", "######-##-####"),
    ("NL", "burgerservicenummer", "nl.bsn", "#########"),
    ("NO", "fødselsnummer", "no.fodselsnummer", "###### #####"),
    ("PK", "CNIC", "pk.cnic", "#####-#######-#"),
    ("PT", "cartão de cidadão", "pt.cc", "######## # ??#"),
    ("RO", "CNP", "ro.cnp", "#############"),
    ("SE", "personnummer", "se.personnummer", "######-####"),
    ("SI", "EMŠO", "si.emso", "#############"),
    ("SK", "rodné číslo", "sk.rc", "######/####"),
    ("TR", "TC kimlik no", "tr.tckimlik", "###########"),
    ("ZA", "identity number", "za.idnr", "#############"),
)
TAX_NUMBERS = (
    ("AR", "CUIT", "ar.cuit", "20-########-#"),
    ("AT", "USt-IdNr.", "eu.vat", "ATU########"),
    ("BE", "ondernemingsnummer", "eu.vat", "BE0#########"),
    ("BR", "CNPJ", "br.cnpj", "##.###.###/####-##"),
    ("CH", "UID", "ch.uid", "CHE-###.###.###"),
    ("CO", "NIT", "co.nit", "###.###.###-#"),
    ("DE", "Steuernummer", "de.stnr", "##/###/#####"),
    ("DE", "USt-IdNr.", "eu.vat", "DE#########"),
    ("DK", "CVR", "dk.cvr", "########"),
    ("FI", "Y-tunnus", "fi.ytunnus", "#######-#"),
    ("FR", "SIRET", "fr.siret", "### ### ### #####"),
    ("FR", "numéro fiscal", "fr.nif", "## ## ### ### ###"),
    ("GB", "UTR", "gb.utr", "##########"),
    ("GB", "VAT number", "gb.vat", "GB#########"),
    ("GR", "AFM", "gr.vat", "#########"),
    ("IN", "GSTIN", "in_.gstin", "27?????####?1Z?"),
    ("IT", "partita IVA", "it.iva", "###########"),
    ("NO", "orgnr", "no.orgnr", "### ### ###"),
    ("PE", "RUC", "pe.ruc", "20#########"),
    ("PL", "NIP", "pl.nip", "###-###-##-##"),
    ("PL", "REGON", "pl.regon", "#########"),
    ("PT", "NIF", "pt.nif", "#########"),
    ("RO", "CUI", "ro.cui", "########"),
    ("SE", "organisationsnummer", "se.orgnr", "######-####"),
    ("TR", "VKN", "tr.vkn", "##########"),
    ("US", "EIN", "us.ein", "##-#######"),
)
# Countries that a language's sentences use, and forms that are recognised without a word.
_NATIONAL = {"en": "IE ZA", "de": "AT CH", "fr": "FR BE", "es": "EC CL", "it": "HR CH", "nl": "NL BE", "pt": "PT BR"}
_TAX = {"en": "GB IN", "de": "DE AT", "fr": "FR BE", "es": "AR PE", "it": "IT CH", "nl": "BE DE", "pt": "PT BR"}
_ALONE = ("BE", "BR", "CH", "CZ", "FI", "FR", "KR", "NO", "SK")

_PATTERNS = {
    "DRIVER_LICENSE": {
        "en": "?####### ?###-####-#### ######## SMITH6###1#AB9CD",
        "de": "B072RRE2I55 ?##?????##?# J######B#11",
        "fr": "##AA##### ############",
        "es": "########? ########-?",
        "it": "U1?####### AB#######C",
        "nl": "##########",
        "pt": "L-####### ###########",
        "pl": "#####/##/####",
    },
    "MEDICAL_RECORD_NUMBER": dict.fromkeys(LANGUAGES, "00###### MR-##### ####-#### H###### #######"),
    "HEALTH_INSURANCE_NUMBER": {
        "en": "???######### ###-##-####-A 9##-###-####",
        "de": "?#########",
        "fr": "#############",
        "es": "????########## BBBB##########",
        "it": "803800########## 8038000#############",
        "nl": "######### ##########",
        "pt": "######### ###############",
        "pl": "########## ###########",
    },
    "BANK_ACCOUNT": {
        "en": "######## ########## ############",
        "de": "####### ########## ###~###~###",
        "fr": "#####~#####~###########~## ###########",
        "es": "####-####-##-########## ####~####~##~##########",
        "it": "000000###### ############",
        "nl": "##.##.##.### #########",
        "pt": "##################### ####.####.###########.##",
        "pl": "##~####~####~####~####~####~#### ##########################",
    },
    "BANK_ROUTING": {
        "en": "##-##-## 0######## ######",
        "de": "######## ###~###~##",
        "fr": "1####",
        "es": "3###",
        "it": "0####",
        "nl": "#####",
        "pt": "00## 3###",
        "pl": "########",
    },
    "EMPLOYEE_ID": dict.fromkeys(LANGUAGES, "##### E-##### 00###-B EMP#### P###### ######"),
    "CUSTOMER_ID": dict.fromkeys(LANGUAGES, "######## K-####### HX-##-#### C####### ##-####-##"),
}


class Values:
    """Draws values and texts; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._faker = {locale: Faker(locale) for locales in LOCALES.values() for locale in locales}
        for fake in self._faker.values():
            fake.seed_instance(seed)

    def filled(self, form: str) -> str:
        """`#` is a digit, `?` a letter, `~` a space."""
        table = {"#": string.digits, "?": string.ascii_uppercase, "~": " "}
        return "".join(self.random.choice(table.get(char, char)) for char in form)

    def valid(self, module: str, form: str) -> str:
        valid: Callable[[str], bool] = import_module(f"stdnum.{module}").is_valid
        while not valid(number := self.filled(form)):
            pass
        return number

    def of(self, kind: str, language: str, template: int) -> str:
        fake = self._faker[self.random.choice(LOCALES[language])]
        if kind == "PASSPORT":
            return str(fake.passport_number())
        if kind == "SWIFT_CODE":
            return str(fake.swift(length=self.random.choice((8, 11))))
        if kind == "LICENSE_PLATE":
            return str(fake.license_plate())
        if kind == "VIN":
            return str(fake.vin())
        if kind == "IMEI":
            return self.valid("imei", self.random.choice(("35#############", "35-######-######-#")))
        if kind in ("NATIONAL_ID", "TAX_ID"):
            return self._number(kind, language, template)
        return self.filled(self.random.choice(_PATTERNS[kind][language].split(" ")))

    def _number(self, kind: str, language: str, template: int) -> str:
        if kind == "NATIONAL_ID" and template == 2:
            countries: tuple[str, ...] = _ALONE
        elif language == "pl":
            return self.filled("???######") if kind == "NATIONAL_ID" else self.valid("pl.nip", "###-###-##-##")
        else:
            countries = tuple((_NATIONAL if kind == "NATIONAL_ID" else _TAX)[language].split(" "))
        rows = [row for row in (NUMBERS if kind == "NATIONAL_ID" else TAX_NUMBERS) if row[0] in countries]
        _, _, module, form = self.random.choice(rows)
        return self.valid(module, form)

    def negatives(self, count: int) -> Iterator[str]:
        """Yield texts without a number of a person: orders, prices, versions, times, telephones, hashes, logs, code."""
        fill, fake = self.filled, self._faker["en_US"]
        makers: tuple[Callable[[], str], ...] = (
            lambda: fill("Order no. ###-#######-####### has ## items, total 1,###.## EUR."),
            lambda: fill("Bestellung ######## vom 1#.0#.2019, Rechnung 2023-00#### über 4##,90 Euro."),
            lambda: fill("Released version 2.1#.### (build ######) on 2024-0#-1#."),
            lambda: fill("2024-05-1# 12:4#:5# INFO worker-# request id=######## took ### ms status=200"),
            lambda: fill("[17########] GET /api/v2/items/######?page=## HTTP/1.1 200 #### 0.0##"),
            lambda: fill("ts=17########### level=debug span=") + f"{self.random.getrandbits(64):016x}",
            lambda: f"commit {self.random.getrandbits(160):040x} merges branch {self.random.getrandbits(28):07x}",
            lambda: f"sha256:{self.random.getrandbits(256):064x} layer {fill('##.#')} MB",
            lambda: f"Call {fake.phone_number()} or {fill('+49 30 ########')} between 9 and 17.",
            lambda: fill("for (int i = 0; i < ####; i++) { buf[i] = 0x####; } // line ###"),
            lambda: fill("const TIMEOUT_MS = #####; const MAX_ID = ##########; const RATE = 0.####;"),
            lambda: fill("ISBN 978-3-16-1#####-#, pages 1##-2##, DOI 10.####/s#####-0##-#####-#"),
            lambda: fill("Flight LH#### leaves gate B## at 1#:##; train ICE ### at 0#:##."),
            lambda: fill("Part AB-###-CD fits model X####, torque ## Nm, article 123.###.##."),
            lambda: fill("The passport office handled 1#,### requests in 2023, 4.#% more than in 2022."),
            lambda: fill("Customer satisfaction rose to 8#.# points among 2### members in 20##."),
            lambda: fill("Our account managers closed 1### tickets; the policy of 2021 covers ### cases."),
            lambda: fill("Patients waited ## days on average (n = ####, p < 0.0#)."),
            lambda: fill("Das Kennzeichen der Epoche um 19## war der Bau von ### Häusern."),
            lambda: fill("Le contrat prévoit 12 mois à 49,90 euros, soit 5##,## euros en 2024."),
            lambda: fill("La cuenta asciende a 1.2##,50 euros con 21 % de IVA."),
            lambda: fill("Il conto è di 1.2##,50 euro più 22 % di IVA dal 2019."),
            lambda: fill("Rekening van 1#-0#-2024: 3 stuks à 1#,95, totaal 4#,85 euro."),
            lambda: fill("Umowa z dnia 1#.0#.2023 r. przewiduje 12 rat po 4##,00 zł."),
            lambda: fill("A matrícula de 2024 custa 3## euros por semestre."),
            lambda: "The BUSINESS of a PASSWORD MANAGER is SECURITY, says the SWIFT DOCUMENT; SEE ABSTRACT.",
            lambda: f"{fake.address()}, unit {fill('###')}",
            lambda: f"lat {fill('52.#####')}, lon {fill('13.#####')}, altitude ### m".replace("###", fill("###")),
            lambda: f"uuid {fake.uuid4()} port {fill('8###')} pid {fill('#####')} mac {fake.mac_address()}",
            lambda: fill("Table 3: 12 34 56 78 90 | ### ### ### | ####.## | 1e-# | ##,###,###"),
            lambda: fill("Tracking 1Z###AA###########, parcel ## of ##, weight #.## kg, EAN 40#############"),
        )
        for number in range(count):
            yield makers[number % len(makers)]()
