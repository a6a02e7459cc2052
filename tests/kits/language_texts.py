"""Short texts in the supported languages, in others, and in none, written for these tests."""

from table_kit import texts

SUPPORTED = {
    "en": texts("""
Please call me back tomorrow morning. || Our meeting moves to Thursday at ten. || thanks, got it
Patient reports mild headache since Monday. || where do I find the form for new staff?
We need your signature on page three. || Dear Mrs Miller, thank you for your letter.
my landlord wants the rent earlier
"""),
    "de": texts("""
Bitte rufen Sie mich morgen früh zurück. || Unser Termin ist am Donnerstag um zehn. || danke, passt so
Der Patient klagt seit Montag über Kopfschmerzen. || wo finde ich das Formular für neue Kollegen?
Wir brauchen Ihre Unterschrift auf Seite drei. || Sehr geehrte Frau Müller, vielen Dank für Ihren Brief.
mein Vermieter will die Miete früher
"""),
    "fr": texts("""
Merci de me rappeler demain matin. || Notre réunion est reportée à jeudi dix heures. || merci, bien reçu
Le patient se plaint de maux de tête depuis lundi. || où se trouve le formulaire pour les nouveaux ?
Il nous faut votre signature page trois. || Chère Madame Martin, merci pour votre lettre.
mon propriétaire veut le loyer plus tôt
"""),
    "es": texts("""
Por favor, llámeme mañana por la mañana. || Nuestra reunión pasa al jueves a las diez. || gracias, recibido
El paciente refiere dolor de cabeza desde el lunes. || ¿dónde está el formulario para empleados nuevos?
Necesitamos su firma en la página tres. || Estimada señora Gómez, gracias por su carta.
mi casero quiere el alquiler antes
"""),
    "it": texts("""
La prego di richiamarmi domani mattina. || La nostra riunione è spostata a giovedì alle dieci. || grazie, ricevuto
Il paziente riferisce mal di testa da lunedì. || dove trovo il modulo per i nuovi colleghi?
Ci serve la sua firma a pagina tre. || Gentile signora Rossi, grazie per la sua lettera.
il padrone di casa vuole l'affitto prima
"""),
    "nl": texts("""
Bel me morgenochtend even terug alstublieft. || Onze afspraak is verplaatst naar donderdag tien uur.
bedankt, ontvangen || Patiënt klaagt sinds maandag over hoofdpijn.
waar vind ik het formulier voor nieuwe collega's? || Wij hebben uw handtekening nodig op pagina drie.
Geachte mevrouw De Vries, dank voor uw brief. || mijn huisbaas wil de huur eerder
"""),
    "pl": texts("""
Proszę oddzwonić jutro rano. || Nasze spotkanie przenosimy na czwartek na dziesiątą. || dzięki, mam to
Pacjent skarży się od poniedziałku na ból głowy. || gdzie znajdę formularz dla nowych pracowników?
Potrzebujemy pani podpisu na stronie trzeciej. || Szanowna Pani Kowalska, dziękuję za list.
właściciel chce czynsz wcześniej
"""),
    "pt": texts("""
Por favor, ligue-me amanhã de manhã. || A nossa reunião passa para quinta-feira às dez. || obrigado, recebido
O paciente queixa-se de dor de cabeça desde segunda-feira. || onde encontro o formulário para novos colegas?
Precisamos da sua assinatura na página três. || Prezada senhora Silva, obrigado pela sua carta.
meu senhorio quer o aluguel mais cedo
"""),
}

OTHERS = {
    "sv": ["Ring mig gärna tillbaka i morgon bitti.", "Hon är född i Malmö och bor med sina två söner."],
    "da": ["Ring venligst tilbage i morgen tidlig.", "Hun er født i Aarhus og bor med sine to sønner."],
    "no": ["Vær så snill å ringe meg tilbake i morgen tidlig.", "Hun ble født i Bergen og bor med de to sønnene sine."],
    "cs": ["Zavolejte mi prosím zítra ráno zpátky.", "Narodila se v Brně a žije se svými dvěma syny."],
    "sk": ["Zavolajte mi prosím zajtra ráno späť.", "Narodila sa v Žiline a žije so svojimi dvoma synmi."],
    "tr": ["Lütfen yarın sabah beni geri arayın.", "İzmir'de doğdu ve iki oğluyla yaşıyor."],
    "hu": ["Kérem, hívjon vissza holnap reggel.", "Szegeden született és két fiával él."],
    "fi": ["Soittakaa minulle takaisin huomenna aamulla.", "Hän syntyi Turussa ja asuu kahden poikansa kanssa."],
    "ro": ["Vă rog să mă sunați mâine dimineață.", "S-a născut la Cluj și locuiește cu cei doi fii."],
    "ca": ["Si us plau, truqui'm demà al matí.", "Va néixer a Girona i viu amb els seus dos fills."],
    "id": ["Tolong hubungi saya kembali besok pagi.", "Dia lahir di Bandung dan tinggal bersama dua putranya."],
    "vi": ["Xin hãy gọi lại cho tôi vào sáng mai.", "Cô ấy sinh ở Huế và sống với hai con trai."],
    "ru": ["Пожалуйста, перезвоните мне завтра утром.", "Она родилась в Казани и живёт с двумя сыновьями."],
    "el": ["Παρακαλώ τηλεφωνήστε μου αύριο το πρωί.", "Γεννήθηκε στην Πάτρα και ζει με τους δύο γιους της."],
    "ja": ["明日の朝、折り返しお電話ください。", "彼女は仙台で生まれ、二人の息子と暮らしています。"],
    "zh": ["请明天早上给我回电话。", "她出生在成都，和两个儿子一起生活。"],
    "ar": ["يرجى الاتصال بي صباح الغد.", "ولدت في حلب وتعيش مع ولديها."],
}

UNDECIDABLE = texts(r"""
Anna, 12:30? || 42 || 4711 0815 || AB-1234; XK-22; QZ-9 || ok || SKU QTY EUR NET\nAX1 3 9.90 29.70\nBX7 1 4.50 4.50
Maria Keller || GB82 WEST 1234 5698 7654 32 || jane@example.org || +44 20 7946 0958 || {"id": 7, "v": [1, 2, 3]}
Zworykin / Müller / Nowak || ID;NAME;ZIP\n1;Kowalski;00-950\n2;Rossi;20121\n3;Lopez;28001
2026-01-02 10:11:12 INFO srv01 GET /x 200 12ms || DE89370400440532013000 BIC COBADEFFXXX || Dr. Smith, Room 12 || 🙂👍
asdf qwer zxcv uiop hjkl vbnm tyui || Anna Kowalska, Piotr Nowak, Jan Wiśniewski
Mehmet Yilmaz, Ayse Demir, Fatma Kaya, Mustafa Celik || Johansson Eriksson Lindqvist Andersson Nilsson
""")
