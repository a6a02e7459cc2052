"""Conversations in Dutch."""

from __future__ import annotations

from benchmarks.conversations.scenario import Scenario, Tool, assistant, call, casts, developer, result, system, user

CASTS = casts(
    """
    Femke de Vries | Joris van den Berg | Groningen | De Vries Bloemen BV | +31 50 555 0123
    Sanne Bakker | Pieter Janssen | Eindhoven | Brabant Techniek BV | +31 40 555 0456
    Lotte Vermeulen | Ahmed El Idrissi | Gent | Scheldehaven NV | +32 9 555 07 89
    """
)

SCENARIOS = (
    Scenario(
        "letter",
        (
            system("Je schrijft brieven voor $b van $org. Onderteken elke brief met $b."),
            user("Ik ben $a uit $city. Zeg tegen $b1 dat ik donderdag niet kom. Mijn nummer is $phone."),
            assistant("Beste $b,\n\n$a uit $city komt donderdag niet. Je bereikt $a1 op $phone."),
            user("Dank je. Korter graag, en noem dat $a heeft betaald op rekening $iban."),
        ),
    ),
    Scenario(
        "tools",
        (
            developer("Gebruik de hulpmiddelen. De vraag komt van $a."),
            user("Wanneer was $b voor het laatst in $city, en wat is het mailadres van $b1?"),
            call('{"name": "$b", "filter": {"plaats": "$city", "sinds": 2021}, "vraagt": ["$a"]}'),
            result('{"rijen": [{"klant": "$b", "mail": "$bmail", "notitie": "Naar $city\\n$a belde.\\tBetaald."}]}'),
            assistant("$b was in maart in $city. Het adres is $bmail."),
            user("Stuur $b1 een herinnering, met een kopie naar $mail."),
        ),
        (Tool("zoek_klant", "Zoekt een klant, bijvoorbeeld $b uit $city.", {"name": "Zoals $b", "plaats": "Plaats"}),),
        {"user": "$mail", "metadata": {"zaak": "Klacht van $a", "contact": "$b"}},
    ),
    Scenario(
        "tables",
        (
            system("Antwoord met tabellen. Dit zijn de klanten:\n\nnaam;plaats\n$a;$city\n$b;$city"),
            user(
                "| Naam | Plaats | Telefoon |\n|---|---|---|\n| $a | $city | $phone |\n| **$b** | $city | geen |\n\n"
                "Wie heeft geen telefoon?"
            ),
            assistant("| Naam | Reden |\n|---|---|\n| $b | $b1 gaf $a1 geen nummer |"),
            user('naam,mail,bedrijf\n"$b",$bmail,"$org"\n"$a2, $a1",$mail,\n\nWie werkt bij $org, $A of $b1?'),
        ),
    ),
    Scenario(
        "code",
        (
            system("Je controleert code. Verander geen namen."),
            user(
                '```python\n# geschreven door $a\nBAAS = "$b"\n\ndef groet(naam="$a1"):\n    '
                'return f"Hallo {naam} uit $city"\n```\nHet toont {"naam": "$a", "pad": "/srv/$aslug"}. Waarom?'
            ),
            assistant("`BAAS` is `$b`, en de waarde van `groet` is `$a1`. Vraag het $a."),
            user(
                "In het logboek staat: 2026-03-04 10:22:11 WARN inloggen van $a ($mail) uit $city mislukt\\n$b hielp.\n"
                "Was dat $b?"
            ),
        ),
    ),
    Scenario(
        "mail",
        (
            user(
                "Van: $a <$mail>\nAan: $b <$bmail>\nOnderwerp: Afspraak in $city\n\nHallo $b1,\n\nkunnen we elkaar in "
                "$city zien? Mijn telefoon is $phone.\n\nGroeten,\n$a1\n\n> Maandag schreef $b:\n> Beste familie $a2, "
                "we hebben uw kaart $card."
            ),
            assistant("$a wil $b in $city zien, en $b heeft de kaart $card."),
            user(
                "Hetzelfde als HTML: <p>Hallo <b>$b</b>,</p><ul><li>$ahtml</li></ul>"
                '<a href="https://example.org/p?q=$aurl">$a</a>. Vat het samen voor $b1.'
            ),
        ),
    ),
    Scenario(
        "profile",
        (
            system("De gebruiker is $a uit $city, die bij $org werkt."),
            user('{"profiel": {"naam": "$a", "ook": ["$a1", "$A"], "partner": "$b"}, "regels": "Woont\\n$a\\n$city"}'),
            assistant('{"kort": "$a en $b wonen in $city."}'),
            user("Is $A ($alow) dezelfde persoon als $a? En is rekening $iban van $b of van $a1?"),
        ),
        (),
        {"author": "$a1", "user": "$a", "metadata": {"zaak": "van $b"}},
    ),
)
