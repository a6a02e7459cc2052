"""Finds that a form or a context shows rather than a label: in commands, logs, lists and conversations; and those that
show none."""

import random
import string

from recogniser_kit import finds
from table_kit import marked, texts

from core.text.mask_words import AllowLists
from core.text.policy import MaskPolicy
from core.text.sanitize import inspect

DRAW = random.Random(31)


def drawn(chars: str, count: int) -> str:
    return "".join(DRAW.choices(chars, k=count))


ALNUM = string.ascii_letters + string.digits
HEX = drawn("0123456789abcdef", 64)
TOKEN = f"{drawn(ALNUM, 26)}.{drawn(ALNUM, 6)}.{drawn(ALNUM, 38)}"
WORDS = "apple bridge candle desert engine forest garden hammer island jacket kettle ladder"
MORE_WORDS = "magnet needle orange pepper quartz rocket saddle timber umbrella velvet window yellow"
PHRASE_LABELS = (
    "seed phrase|recovery phrase|Wiederherstellungsphrase|phrase de récupération|frase de recuperación|"
    "frase di recupero|herstelzin|frase de recuperação|fraza odzyskiwania"
)
CODES_LABELS = (
    "backup codes|recovery codes|Wiederherstellungscodes|codes de secours|códigos de respaldo|codici di recupero|"
    "herstelcodes|códigos de recuperação|kody zapasowe"
)

PUT_TOGETHER = [
    ("SECRET", f"BOT_TOKEN={TOKEN}", TOKEN),
    ("SECRET", f'token ||= "{HEX[:32]}"', HEX[:32]),
    ("SECRET", f'master_key = bytes.fromhex("{HEX}")', HEX),
    ("SECRET", f'const secretKey = Buffer.from("{HEX}", "hex")', HEX),
    ("SECRET", f"openssl enc -d -aes-128-cbc -iv {HEX[:32]} -in b.bin", HEX[:32]),
    ("SECRET", "root:$1$" + "saltsalt$" + drawn(ALNUM, 22) + ":19000:", None),
    ("SECRET", "root:$6$" + "saltsalt$" + drawn(ALNUM, 86) + ":19000:", None),
    ("SECRET", "userPassword: {SSHA}" + drawn(ALNUM, 32), None),
    ("SECRET", "pbkdf2_sha256$600000$" + drawn(ALNUM, 22) + "$" + drawn(ALNUM, 43) + "=", None),
    ("USERNAME", r"C:\Users\jdoe\notes", "jdoe"),
]
FOUND = {
    "SECRET": """
snmp-server community «Kestrel-net» RW || tacacs-server key 7 «0822455D0A16»
username vesna privilege 15 secret 0 «R4ven-gate» || sqlplus app_ro/«Fjord77x»@dbhost:1521/PDB
""",
    "PASSWORD": r"""
imap_password = «kq7z mn2p ab4c xy9d»\n || jarsigner -storepass «Walrus88» a.jar
WIFI:S:Attic;T:WPA;P:«mountaingoat»;; || everyone knows that password, I changed ours to «Lynx42-pine»
what's the router password? it's «Lynx42-pine» || wie ist das passwort vom drucker? - das ist «Lynx42-pine»
mysql -u root -p«Gr8-Tree» db || «482913» is your verification code
""",
    "USERNAME": """
sftp login: «agnes_k» / Lynx42pine || Benutzername «agnes.k» || gebruiker «agnesk», wachtwoord Lynx42-pine
użytkownik «agnes_k» ma problem || # FIXME(«agnesk»): remove
203.0.113.9 - «agnesk» [11/Mar/2025:10:00:00 +0000] "GET / HTTP/1.1" 200 || username: «jdoe42»
ls /home/«jdoe»/notes || user "«jdoe»" logged in || Failed password for invalid user «jdoe» from 10.0.0.1
thanks «@jdoe_42»!
""",
    "COORDINATE": """
We met at «48.20849, -0.37208» in May. || «52.5200° N, 13.4050° E» || «geo:52.5163,13.3777» || GPS «52.5163 13.3777»
«52°31'12.0"N 13°24'18.0"E»
""",
    "SWIFT_CODE": "transfer it through «NDEAFI2H» today",
    "LICENSE_PLATE": "der bmw mit «hh-kl 482» parkt hier",
    "CUSTOMER_ID": """
Ihre Mitgliedsnummer lautet «M 771 204 58». || votre numéro d'abonné est le «4 118 920» || nr klienta «551 208»
customer no. «48213» 12 items || policy «K 8120 44731 02» ends
""",
    "EMPLOYEE_ID": "She lost badge «LN-4410». || matricola dipendente «20771»",
    "MEDICAL_RECORD_NUMBER": "historia clínica «NHC 551207» || processo clínico «HC 40182»",
    "EMAIL_ADDRESS": """
write to «ann@mail.example».2 of us did || GET /u?email=«jane@corp.com»&x=1 || GET /users/«jane@corp.com»
mailto:«jane@corp.com» || x-user=«jane.doe@corp.com» || DKIM-Signature: v=1; i=«jane@corp.com»; s=a
<«bounces+jane=corp.com@mail.example.org»> || «SRS0=ab1=xy=corp.com=jane@fwd.example.org»
""",
    "URL": "see «docs.rs/serde» and example.pl/main.py",
    "PHONE_NUMBER": """
Tel«07911123456x12» || order phone «5550123» || order «+49 151 12345678» || To order «0800 123 4567»
Tel. «01305-100» || 1250-142 Lisboa. Telefone «912345678»
""",
    "IP_ADDRESS": """version 7 of the server «10.1.2.3» || {"version": 3, "host": "«10.1.2.3»"}""",
    "AGE": "Her grandmother reached «97» in March. || a «93-year-old» man || aged «91»",
    "DATE_OF_BIRTH": """
born on «3 May 1984» in Rome || DOB: «05/03/84» || am «3. Mai 1984» in Köln geboren || "dob": "«19840503»"
urodzony «3 maja 1984 r.»
""",
    "DATE_TIME": """
on «Tuesday, May 3rd, 2022» we met || le «1er mai 2020 à 14h30» || um «14.30 Uhr» || at «2024-05-03T14:30:00Z»
on «3 and 7 May 1998» || «3, 7 and 9 May 1998» || between the «3rd and the 7th of May 1998» || «May 3, 7 and 9, 1998»
«May 3-7» || «3-7 May 1998» || «3.-7. Mai 1998» || am «3. und 7. Mai» || vom «3. bis 7.5.1998» || du «3 au 7 mai 1998»
le «1er et le 3 mai 1998» || del «3 al 7 de mayo de 1998» || el «3 y el 7 de mayo» || dal «3 al 7 maggio 1998»
«3, 7 en 9 mei 1998» || van «3 t/m 7 mei» || od «3 do 7 maja 1998» || «3 i 7 maja 1998 r.» || de «3 a 7 de maio de 1998»
Unit 12, «3 May 1998» || 12 people and «3 May 1998» || 4 boxes - «7 May 1998»
""",
}
NOT_FOUND = {
    "SECRET": r"""
POST /v1/token HTTP/1.1 || seed phrase: never give the words of it to anyone who asks you for them
Your backup codes are in the safe, room 1204 || enable password encryption and enable secret sharing
snmp-server community public RO || key = bytes.fromhex("deadbeef") || token = config.session.first_access_token_value
""",
    "PASSWORD": r"""
password = this will show text here again || Is the password good? It's 10:30am already
the password page was redesigned, we changed it to version2
""",
    "USERNAME": r"""
# TODO(security): check || l'utente config.json || GET - - [11/Mar/2025:10:00:00 +0000] || o utilizador pode entrar
user = request.user || username: str || @property\ndef size(self): ... || login as root
""",
    "COORDINATE": "loss 10.12345, 0.12784 || version 1.2345, then 2.3456 || weights [0.1234, 0.5678, 0.9]",
    "SWIFT_CODE": "transfer it through BUSINESS",
    "LICENSE_PLATE": "see table ab-cd 12 in the annex",
    "CUSTOMER_ID": "The contract costs EUR 12500 and the policy of 2019 ended.",
    "EMAIL_ADDRESS": "npm install vue@3.4.21 and left-pad@1.3.0",
    "URL": "session.post(url, data=site.info(1)); open archive-2.1.tar.gz, app.min.js and run.sh",
    "PHONE_NUMBER": """
Artikelnummer 4012345678901, réf. 3401234567890, EAN: 5901234123457 || São Paulo - SP, 01305-100
Se llama Ana 12345678 || precio fijo 12345678
""",
    "IP_ADDRESS": """
version 1.2.3.4, wersja 2.3.4.5, firmware v1.2.3.5 || {"version": "1.2.3.4"}
Mozilla/5.0 Chrome/120.0.0.0 Safari/537.36 Edg/120.0.0.0
""",
    "AGE": "The temperature reached 97 in March. || aged 89 || for 92 years the house stood empty",
    "DATE_OF_BIRTH": """
The contract of 3 May 1984 || born in Paris, died on 3 May 1984 || He was born in Leeds. He joined on 3 May 1984.
""",
    "DATE_TIME": "version 1.2.3 has a ratio of 16:9",
}


PHONES = """
téléphone 0612345678 || Portable : 0612345678 || Fixe : 0112345678 || Appelez-moi au 0612345678
télécopie 0112345678 || telefoon 0612345678 || bel me op 0612345678 || mobiel nummer: 0612345678
teléfono: 612345678 || Llámame al 612345678 || móvil 612345678 || numero movil: 612345678 || Telefone: 912345678
telemóvel 912345678 || Ligue para 912345678 || telefon: 501234567 || Proszę dzwonić pod numer telefonu 501234567
komórka 501234567 || Zadzwoń pod 501234567 || telefonu komórkowego: 501234567 || faks 221234567
telefon_komorkowy=501234567 || Handy 01701234567 || ruf mich an unter 01701234567 || Festnetz: 03012345678
Mobilnummer 01701234567 || cellulare 3331234567 || chiamami al 3331234567 || "telefono": "3331234567"
linea fissa 0612345678 || WhatsApp 612345678 || phoneNumber=612345678 || "homePhone": "612345678"
landline 2079460123 || phone: 4915112345678 || called 12345678
"""
THINGS = (
    "invoice|serial|article no.|SKU|order|part|item #|ticket|version|release|build|firmware|Rechnungsnr.|Seriennummer|"
    "Artikelnummer|Bestellung|Auftragsnummer|facture n°|numéro de série|commande|pièce|factura|número de serie|pedido|"
    "pieza|fattura|numero di serie|ordine|pezzo|factuurnummer|serienummer|bestelling|onderdeel|fatura|número de série|"
    "encomenda|peça|faktura nr|numer seryjny|zamówienie|część|zgłoszenie|wersja"
)


def types(text: str) -> list[str]:
    """Return the types that the default patterns find."""
    return [mask.type for mask in inspect(text, MaskPolicy(), AllowLists()).masks]


def test_a_word_for_a_phone_or_a_call_decides_the_type() -> None:
    for text in texts(PHONES):
        assert types(text) == ["PHONE_NUMBER"]


def test_the_number_of_a_thing_is_no_phone() -> None:
    for thing in THINGS.split("|"):
        for number in ["2024-0815-33", "8801-223-41", "12-3456-78"]:
            assert finds("PHONE_NUMBER", f"{thing} {number}") == []
            assert finds("PHONE_NUMBER", f"{thing}: {number}, tel. 600 123 456") == ["600 123 456"]
            assert finds("PHONE_NUMBER", f"{thing}, phone: {number}") == [number]


def test_a_card_word_keeps_a_card() -> None:
    assert types("pay by card by phone: 4915112345678") == ["CREDIT_CARD"]


def test_an_identity_number_is_no_phone() -> None:
    assert types("ssn: 078051120") == ["US_SSN"]
    assert types("NSS 28/12345678/40") == ["NATIONAL_ID"]
    assert types("NIE X-1234567-L") == ["ES_NIE"]
    assert finds("ES_NIE", "NIE X-1234567-L") == ["X-1234567-L"]


def test_a_form_shows_a_value() -> None:
    table = [(entity, text, value) for entity, block in FOUND.items() for text, value in marked(block)]
    for entity, text, value in (*table, *PUT_TOGETHER):
        found = finds(entity, text)
        assert found[:1] == [value] if value else len(found) == 1 and len(found[0]) >= 30


def test_other_forms_are_left_alone() -> None:
    for entity, block in NOT_FOUND.items():
        for text in texts(block):
            assert finds(entity, text) == [], text
    assert finds("SECRET", f"seed phrase: {WORDS} anyway") == []
    assert finds("PHONE_NUMBER", f"sha256:ab12cd0301234567ef34{HEX}") == []


def test_the_phrase_of_a_wallet_is_a_secret() -> None:
    for label in PHRASE_LABELS.split("|"):
        for phrase in [WORDS, f"{WORDS} {MORE_WORDS}"]:
            assert finds("SECRET", f"{label}: {phrase}") == [phrase]
            numbered = "\n".join(f"{number}. {word}" for number, word in enumerate(phrase.split(), 1))
            assert finds("SECRET", f"{label}:\n{numbered}") == [numbered.removeprefix("1. ")]


def test_every_code_of_a_list_is_a_secret() -> None:
    for label in CODES_LABELS.split("|"):
        assert finds("SECRET", f"{label}: 48120733, 90217745, 11830462") == ["48120733", "90217745", "11830462"]
        assert finds("SECRET", f"{label}:\n- 4f8a1-9c2de\n- 7b3c0-1d4aa\n") == ["4f8a1-9c2de", "7b3c0-1d4aa"]


def test_a_prefix_or_a_name_is_no_part_of_a_key() -> None:
    key = drawn(ALNUM, 42)
    assert finds("SECRET", f"APP_KEY=base64:{key}=") == [key + "="]
    assert finds("SECRET", f"SECRET_KEY = 'django-insecure-{key}'") == [key]
    assert finds("SECRET", f"AccountName=logs;AccountKey={key * 2}ab==;x") == [f"{key * 2}ab=="]


def test_the_user_and_the_password_of_a_pair_are_found() -> None:
    text = "credentials are mira.vega and Lynx42-pine"
    assert (finds("USERNAME", text), finds("PASSWORD", text)) == (["mira.vega"], ["Lynx42-pine"])


def test_a_long_text_without_spaces_is_read_to_its_end() -> None:
    types = ("SECRET", "PASSWORD", "USERNAME", "DATE_OF_BIRTH", "DATE_TIME", "AGE", "COORDINATE")
    found = inspect("aB3" * 100_000 + ";password=hunter2", MaskPolicy(entities=types), AllowLists())
    assert [(found.text[mask.start : mask.end], mask.type) for mask in found.masks][-1:] == [("hunter2", "PASSWORD")]
