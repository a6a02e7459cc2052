"""Conversations in German."""

from __future__ import annotations

from benchmarks.conversations.scenario import Scenario, Tool, assistant, call, casts, developer, result, system, user

CASTS = casts(
    """
    Anna Schneider | Jürgen Groß | Kassel | Schneider Optik GmbH | +49 561 9018273
    Lena Müller-Lüdenscheidt | Karl von Bergen | Bremen | Hansewerk AG | +49 421 5501928
    Sabine Köhler | Mehmet Yılmaz | Nürnberg | Frankentechnik GmbH | +49 911 4402817
    Friedrich Baumgartner | Ursula Weiß | Graz | Alpenmilch AG | +43 316 8812093
    Katharina Hoffmann | Stefan Krüger | Leipzig | Pleißebau GmbH | +49 341 2219087
    Björn Thiele | Petra Lindemann | Rostock | Ostseeklinik GmbH | +49 381 7760912
    Heike Zimmermann | Tobias Vogt | Freiburg | Vogt Metallbau GmbH | +49 761 3390182
    Dieter Schöne | Aylin Demir | Dortmund | Ruhrlog AG | +49 231 6650917
    """
)

SCENARIOS = (
    Scenario(
        "letter",
        (
            system("Sie schreiben Briefe für $b von der $org. Unterschreiben Sie mit $b."),
            user("Ich bin $a aus $city. Sagen Sie $b1 bitte, dass ich am Donnerstag nicht komme. Telefon: $phone."),
            assistant("Guten Tag $b,\n\n$a aus $city kommt am Donnerstag nicht. Sie erreichen $a1 unter $phone."),
            user("Danke. Bitte kürzer, und erwähnen Sie die Überweisung von $a auf das Konto $iban."),
        ),
    ),
    Scenario(
        "tools",
        (
            developer("Benutze die Werkzeuge. Es fragt $a."),
            user("Wann war $b zuletzt in $city, und wie lautet die Mailadresse von $b1?"),
            call('{"name": "$b", "filter": {"ort": "$city", "seit": 2021}, "fragt": ["$a"]}'),
            result(
                '{"zeilen": [{"kunde": "$b", "mail": "$bmail", "notiz": "Zog nach $city\\n$a rief an.\\tBezahlt."}]}'
            ),
            assistant("$b war im März in $city. Die Adresse ist $bmail."),
            user("Schicke $b1 eine Erinnerung, mit Kopie an $mail."),
        ),
        (Tool("kunde_suchen", "Sucht Kunden, zum Beispiel $b aus $city.", {"name": "Etwa $b", "ort": "Eine Stadt"}),),
        {"user": "$mail", "metadata": {"fall": "Beschwerde von $a", "betreuer": "$b"}},
    ),
    Scenario(
        "tables",
        (
            system("Antworte mit Tabellen. Das sind die Kunden:\n\nname;ort\n$a;$city\n$b;$city"),
            user(
                "| Name | Ort | Telefon |\n|---|---|---|\n| $a | $city | $phone |\n| **$b** | $city | keins |\n\n"
                "Wer hat kein Telefon?"
            ),
            assistant("| Name | Grund |\n|---|---|\n| $b | $b2 hat $a1 keine Nummer gegeben |"),
            user('name,mail,firma\n"$b",$bmail,"$org"\n"$a2, $a1",$mail,\n\nWer arbeitet bei $org, $A oder $b1?'),
        ),
    ),
    Scenario(
        "code",
        (
            system("Du prüfst Programme. Ändere keine Namen."),
            user(
                '```python\n# geschrieben von $a\nINHABER = "$b"\n\ndef gruss(name="$a1"):\n    '
                'return f"Hallo {name} aus $city"\n```\nEs zeigt {"nutzer": "$a", "pfad": "/srv/$aslug"}. Warum?'
            ),
            assistant("`INHABER` ist `$b`, und der Vorgabewert von `gruss` ist `$a1`. Fragen Sie $a."),
            user(
                "Im Protokoll steht: 2026-03-04 10:22:11 WARN Anmeldung von $a ($mail) schlug fehl ($city)\\n$b half.\n"
                "War das $b?"
            ),
        ),
    ),
    Scenario(
        "mail",
        (
            user(
                "Von: $a <$mail>\nAn: $b <$bmail>\nBetreff: Treffen in $city\n\nHallo $b1,\n\nkönnen wir uns in $city "
                "treffen? Ruf mich an: $phone.\n\nViele Grüße\n$a1\n\n> Am Montag schrieb $b:\n> Liebe Familie $a2, "
                "wir haben Ihre Karte $card."
            ),
            assistant("$a möchte $b in $city treffen, und $b2 hat die Karte $card."),
            user(
                "Dasselbe als HTML: <p>Hallo <b>$b</b>,</p><ul><li>$ahtml</li></ul>"
                '<a href="https://example.org/p?q=$aurl">$a</a>. Fasse es für $b1 zusammen.'
            ),
        ),
    ),
    Scenario(
        "profile",
        (
            system("Es schreibt $a, geboren in $city, angestellt bei der $org."),
            user('{"profil": {"name": "$a", "auch": ["$a1", "$A"], "partner": "$b"}, "zeilen": "Wohnt\\n$a\\n$city"}'),
            assistant('{"fazit": "$a und $b wohnen in $city."}'),
            user("Ist $A ($alow) dieselbe Person wie $a? Und gehört das Konto $iban nun $b oder $a1?"),
        ),
        (),
        {"author": "$a1", "user": "$a", "metadata": {"vorgang": "von $b"}},
    ),
)
