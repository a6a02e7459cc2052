"""Postcodes in fields, plates beside a vehicle, account names, customers and identity documents, with their
labels inflected, nested and in forms; and their neighbours."""

from recogniser_kit import finds, left, shown
from table_kit import marked, texts

POSTCODES = r"""
zip code «02139-4307» || my zip is «60614». || Zip/Postal: «98052» || cod_postal: «29001» || PLZ/Ort: «89073» Ulm
postcode: «SW1A 1AA» || Postcode «M1 1AE»
postal code: «K1A 0B1» || eircode: «D02 AF30» || PLZ «99084» || Die Postleitzahl lautet «1010». || PLZ: «CH-8005»
code postal : «75011» || mon code postal est le «69003» || CP «28013» || código postal: «41004» || CAP: «20121»
CAP «00184» || codice postale «50122» || postcode «1012 AB» || mijn postcode is «3511LN» || CEP: «01310-100»
código postal «1250-142» || kod pocztowy: «00-950» || z kodem pocztowym «31-042» || {"plz":"«99084»"}
{"zip": «94107», "city": "x"} || {"address": {"postalCode": "«75011»"}} || zip=«94107» city=x
jo: my zip?\nbot: the zip is «94107» || What's your zip?\n«94107» || name;plz;ort\nPia;«53111»;Bonn
id,postcode,total\n7,«LE1 5WW»,20 || postcode;plaats\n«5611 EM»;x || codigo_postal,pais\n«46001»,ES
| city | zip |\n| --- | --- |\n| Reno | «89501» | || * PLZ: «99084»\n* Ort: x || zip_code: «94107»
"""
NO_POSTCODES = r"""
99084 people came || market cap: 12345 || unzip 2.0 || zip 2.0 files || a zip of 5 MB || the zip file has 3 entries
CAP theorem of 2000 || order 94107 || room 10115 || kod 12345 || code: 94107 || rate cap=20121 || PLZ gesucht
post 12345 || zip it, 12 people || the zip costs 94107 EUR || name,zip\nsee you at 10115, then || name,city\nx,10115
CP violation, 1964 prize || {"id": 94107} || Ort: 99084
"""
VEHICLES = r"""
Das Auto «RO-KG 418» || Mein Golf «KA-PL 90» springt nicht an. || Kfz «MÜ-AB 55» || His Ford «8ABC123» was towed.
My Honda «HJ21 KPO» broke down. || Ma Clio «DG-821-PX» est en panne || La Fiat «CB 902 NN» è mia || immat. «EW-208-NB»
Kennz.: «K AB 1199» || auto o numerach rejestracyjnych «PO 8HK21» || plate,speed\n«LX20 HJK»,61
x,vehicle_plate\n1,«MA19 TYU»
 der graue Dienstwagen «HH KL 482» wurde gesehen
Ein weißer Transporter («B-AR 77») hielt. || «K-TV 901», ein blauer Wagen || the grey van with «AB12 CDE»
My car is «LK19XYZ». || a truck, «8ABC123», left || la voiture «AB-123-CD» est garée
le camion immatriculé «GH-482-KL» || «AB-123-CD», une camionnette || el coche «1234 BCD»
la furgoneta blanca «4471-KLM» se fue || la macchina «AB 123 CD» || un'automobile rossa, «FG482KL»
het voertuig «12-ABC-3» || de vrachtwagen «BX-JK-12» || Ein schwarzer Audi, «S-PQ 901», fuhr weg
de bestelbus «AB-123-C» reed weg || o carro «AA-12-BB» || o veículo «ABC1D23»
samochód «WA 12345» || samochodem «KR 7AB12» przyjechał || w samochodzie marki Opel «PO 4KL87» siedział
{"vehicle": "«RO-KG 418»"} || car: «AB12 CDE» || jo: which car?\nroe: the car «AB12 CDE» outside
"""
NO_PLATES = """
Das Auto ISO-9001 || car DIN-A 4 || LED-TV 55 car || car AB-12 || the car, model X5 2019 || Das Auto erfüllt EU-6
the car costs USD 12345 || a truck IN 12345 || BMW 3200 || the car did 1234 miles || van USD 4500 || RO-KG 418
the Ford F-150 2019 || Mazda CX-30 || Honda CB 500 || Golf GTI 2019 || plate,speed\n12,61 || samochód za PLN 45000
o carro de 2019 || AB-123-CD fits || voiture de 120 CV || car park B 12 || CO 2 car
"""
ACCOUNTS = r"""
I cannot sign in as «nightowl77» any more || inloggen als «jvries88» || iniciar sesión como «pepe.r2»
account «bronwyn.hale» || my account is «kitty_91» || reset the password of «bronwyn.hale»
locked account «bronwyn.hale» after 5 tries || please reset user «bhale42»
the account of «bronwyn.hale» is locked || user account: «bronwyn_hale» || login «b.hale» failed
profile «bronwyn.hale» || reset the account of «svenja.b» || unlock «peter.lund»'s account || login by «marek.z» failed
reset «tom_ekman»'s old password || Anmeldung von «lena.vogt» fehlgeschlagen || Anmeldung für «max.iller» ohne Erfolg
connexion de «paul.remy» refusée || account «sanne.v» verwijderd || Nutzer «sabrina.l» abgemeldet
login,role\n«e.pavlova»,admin || user_name,team\n«tmoss»,ops
Konto «lena.maier» gesperrt || Das Konto von «lena_maier» || Nutzer «lmaier84» meldet
compte «jean.durand» bloqué || le compte de «jean_durand» || la cuenta «ana.ruiz» || el usuario «aruiz77» no entra
il conto utente «marco.rossi» || profilo «marco_rossi» || het account «bram.vos» || gebruiker «bram.vos» klaagt
a conta «rui.melo» || o utilizador «rui_melo» || konto «anna.kowalska» zablokowane || użytkownika «akowalska77» brak
{"account": "«bronwyn.hale»"} || account=«bronwyn.hale» ok || jo: which one?\nroe: account «bronwyn.hale»
"""
NO_ACCOUNTS = """
account manager || account settings.json || the user first_name field || user account.type || user is_active flag
today's account || node.js's account system || user's account || account e.g. the || user python3 || login page
profile="snap.firefox" || user guide.pdf || account example.com
user etc. || profile v2 || user interface || account balance || user level2 || account_id || login step1 || users.all
"""
CUSTOMERS = r"""
customer.id=«48213» || customer.id: «C-48213» || "customer.id": "«84-2213»"
customer.id = «8f14e45f-ceea-467f-9575-27a3b7c9d001» || customer.id: «cus_9s6XKzkNRLz8i3»
{"customer":{"id":"«84213»","name":"x"}} || {"customer": {"id": «84213»}}
{"customer": {"vip": true, "id": "«K-84213»"}} || customer:\n  id: «84213» || client.id=«48213» || member.id=«M48213»
Kunde.id=«48213» || Kunden-ID «48213» || cliente.id: «48213» || klant.id: «48213» || klient.id=«48213»
klient o numerze «48213» || customer.number: «48213» || ctx customer.id=«48213» ok || student ID «20481133»
Matrikelnummer «3048113» || id_cliente=«40918» || Vertragskonto «2003341902» || réf. client : «CLI-8812»
id,customer_id\n1,«99201» || client_id;pais\n«88120»;ES || customer_ref: «CR-8812»
"""
NO_CUSTOMERS = r"""
customer_id,note\nnone,48213 || customer.id is a string || customer.id: int || customer.name = 48213 || customers 48213
{"customer": {"age": 48213}} || {"order": {"id": 48213}} || id: 48213 || customer.id = None
the customer paid 48213 EUR || customer.save(12345)
"""
DOCUMENTS = r"""
legitymującą się dowodem «CCF 482917» || legitymujący się dowodem os. «CAR 229018» || dow. os. «CHX 220981»
dowód osobisty seria «ABN nr 447120» || dowodem osobistym serii «ATK nr 559012» || Personalausweis-Nr. «L9VN2K8PT»
Personalausweisnr. «L01X00T47» || Rentenversicherungsnr.: «65170839J003»
Sozialvers.-Nr. «65170839J003» || n° SS «249016938212345» || N° S.S. : «2 49 01 69 382 123 45»
carte d'identité «X4RTBPFW4» || ID-kaart «IZP33C0K1» || cartão de cidadão n.º «30112987 1 ZX7» || CC n.º «12345678»
BI n.º «12093847» || C.I. n. «CA55512KL» || provisto de NIE «X-3381920-M» || RVNR «12030581M012» || RUN: «12.345.678-9»
Mon numéro de sécu est «1 85 05 78 006 084 36» || mój PESEL to «90010112345» || identity_card,country\n«AB8812903»,RO
legitymującego się dowodem osobistym o numerze «ABC 123456»
legitymująca się dowodem osobistym seria i numer «AVX 482917» || na podstawie dowodu osobistego «CCF482917»
w dowodzie osobistym nr «CCF 482917» || wymienił dowód na dowód «CCF 482917» || kartą pobytu «RR 4829173»
dokumentem tożsamości «CCF 482917» || legitymacją nr «482917-3» || Inhaber des Personalausweises «L01X00T47»
mit dem Ausweis «L01X00T47» || Nummer seines Ausweises: «L01X00T47» || identity document no. «X4829173»
les cartes d'identité n° «880692310285» || titulaire de la pièce d'identité n° «880692310285»
titular del documento de identificación «X4829173» || documento d'identità n. «CA 4829173»
het identiteitsbewijs «IX4829173» || portador do documento de identificação n.º «48291730» || ID number: «4829-17301»
my identification number is «X48291730» || Identifikationsnummer: «4829-17301»
numéro d'identification : «4829-17301» || número de identificación: «4829-17301»
numero di identificazione «4829-17301» || identificatienummer «4829-17301» || número de identificação: «4829-17301»
numerem identyfikacyjnym «4829-17301»
"""
INFLECTED = {
    "PASSPORT": """
legitymował się paszportem «EA 1234567» || na podstawie paszportu nr «EA 1234567» || Nummer des Reisepasses «C01X00T47»
les passeports n° «12AB34567»
""",
    "DRIVER_LICENSE": "prawem jazdy nr «00482/19/1433» || Nummer des Führerscheins «B072RRE2I55»",
}
NO_DOCUMENTS = """
dowodem jest 12 zdjęć || dowód z 2019 roku || the test passes 100000 times || ID: 482917 || an ID card is needed
dowodem tego jest zdjęcie 482 || Ausweis bitte vorzeigen || identification of 48291 species || id 4829173
run_id=9175550162 || run 9175550162 || seria ABN nr 12 || legitymacja szkolna za 25,50 zł || ID number is required
the ID of the job is 482917
"""


def test_a_postcode_in_a_field_of_its_own_is_hidden() -> None:
    assert left(POSTCODES, "POSTCODE") == []
    for text in texts(NO_POSTCODES):
        assert finds("POSTCODE", text) == [], text


def test_formats_have_postcodes_in_their_fields() -> None:
    keys = "plz zip zipCode postal_code postcode code_postal codigoPostal cap cep kod_pocztowy"
    for key in keys.split():
        code = "01310-100" if key == "cep" else "00-950" if key == "kod_pocztowy" else "99084"
        assert left(f'{{"{key}": "«{code}»", "x": "y"}}', "POSTCODE", "json") == []
        assert left(f"name,{key}\\nx,«{code}»\\n", "POSTCODE", "csv") == []
        assert left(f"INFO done {key}=«{code}»", "POSTCODE", "log") == []


def test_a_plate_beside_a_vehicle_is_hidden() -> None:
    assert left(VEHICLES, "LICENSE_PLATE") == []
    for text in texts(NO_PLATES):
        assert finds("LICENSE_PLATE", text) == [], text


def test_a_name_after_a_word_for_an_account_is_hidden() -> None:
    assert left(ACCOUNTS, "USERNAME") == []
    for text in texts(NO_ACCOUNTS):
        assert finds("USERNAME", text) == [], text


def test_a_customer_under_a_dotted_or_nested_key_is_hidden() -> None:
    assert left(CUSTOMERS, "CUSTOMER_ID") == []
    for text in texts(NO_CUSTOMERS):
        assert finds("CUSTOMER_ID", text) == [], text
    assert shown('{"customer": {"id": 84213, "n": 5}}', "json") == '{"customer": {"id": "[CUSTOMER_ID]", "n": 5}}'
    assert shown("INFO customer.id=48213", "log") == "INFO customer.id=[CUSTOMER_ID]"


def test_identity_documents_are_hidden_after_inflected_words() -> None:
    for text, value in marked(DOCUMENTS):
        assert finds("NATIONAL_ID", text) == [value], text
        assert value not in shown(text), text
    for entity, table in INFLECTED.items():
        for text, value in marked(table):
            assert finds(entity, text) == [value], text
    for text in texts(NO_DOCUMENTS):
        assert finds("NATIONAL_ID", text) == [], text
