"""Conversations in Polish."""

from __future__ import annotations

from benchmarks.conversations.scenario import Scenario, Tool, assistant, call, casts, developer, result, system, user

CASTS = casts(
    """
    Barbara Zielińska | Tomasz Lewandowski | Gdynia | Zielińska Meble sp. z o.o. | +48 58 555 01 23
    Katarzyna Wójcik | Paweł Nowakowski | Rzeszów | Podkarpacki Transport SA | +48 17 555 04 56
    """
)

SCENARIOS = (
    Scenario(
        "letter",
        (
            system("Piszesz listy dla firmy $org. Kierownik: $b."),
            user("Nazywam się $a, mieszkam w mieście $city. Mój numer to $phone. Kierownik $b o tym wie."),
            assistant("Dzień dobry. $a, $city, prosi o przełożenie spotkania. Telefon: $phone. Podpis: $b."),
            user("Dziękuję. Krócej. Wpłatę na konto $iban zrobiła osoba $a."),
        ),
    ),
    Scenario(
        "tools",
        (
            developer("Używaj narzędzi. Pyta $a."),
            user("Kiedy $b odwiedził miasto $city i jaki ma adres?"),
            call('{"name": "$b", "filtr": {"miasto": "$city", "od": 2021}, "pyta": ["$a"]}'),
            result(
                '{"wiersze": [{"klient": "$b", "mail": "$bmail", "uwaga": "Teraz $city\\n$a dzwoni.\\tZapłacono."}]}'
            ),
            assistant("$b był w mieście $city w marcu. Adres to $bmail."),
            user("Wyślij przypomnienie na $bmail, z kopią na $mail. Adresat: $b1."),
        ),
        (
            Tool(
                "szukaj_klienta",
                "Szuka klienta, na przykład $b, $city.",
                {"name": "Na przykład $b", "miasto": "Miasto"},
            ),
        ),
        {"user": "$mail", "metadata": {"sprawa": "Skarga, $a", "opiekun": "$b"}},
    ),
    Scenario(
        "tables",
        (
            system("Odpowiadaj tabelami. To są klienci:\n\nimie;miasto\n$a;$city\n$b;$city"),
            user(
                "| Nazwisko | Miasto | Telefon |\n|---|---|---|\n| $a | $city | $phone |\n| **$b** | $city | brak |\n\n"
                "Kto nie ma telefonu?"
            ),
            assistant("| Nazwisko | Powód |\n|---|---|\n| $b | $b1 nie podał numeru |"),
            user('imie,mail,firma\n"$b",$bmail,"$org"\n"$a2, $a1",$mail,\n\nKto pracuje w firmie $org: $A czy $b1?'),
        ),
    ),
    Scenario(
        "code",
        (
            system("Sprawdzasz programy. Nie zmieniaj nazwisk."),
            user(
                '```python\n# autor: $a\nSZEF = "$b"\n\ndef powitaj(imie="$a1"):\n    '
                'return f"Witaj {imie}, $city"\n```\nWypisuje {"imie": "$a", "plik": "/srv/$aslug"}. Dlaczego?'
            ),
            assistant("`SZEF` to `$b`, a wartość w `powitaj` to `$a1`. Zna ją $a."),
            user(
                "W dzienniku: 2026-03-04 10:22:11 WARN nieudane logowanie, $a ($mail), $city\\n$b pomógł.\n"
                "Czy to był $b?"
            ),
        ),
    ),
    Scenario(
        "mail",
        (
            user(
                "Od: $a <$mail>\nDo: $b <$bmail>\nTemat: Spotkanie, $city\n\nCześć,\n\nczy możemy się spotkać? "
                "Miejsce: $city. Telefon: $phone.\n\n"
                "Pozdrawiam\n$a1\n\n> W poniedziałek $b napisał:\n> Mamy kartę $card."
            ),
            assistant("$a prosi o spotkanie ($city), a $b ma kartę $card."),
            user(
                "To samo w HTML: <p>Cześć, <b>$b</b></p><ul><li>$ahtml</li></ul>"
                '<a href="https://example.org/p?q=$aurl">$a</a>. Streść to. Czyta $b1.'
            ),
        ),
    ),
    Scenario(
        "profile",
        (
            system("Pisze $a, miasto $city, firma $org."),
            user('{"profil": {"imie": "$a", "inne": ["$a1", "$A"], "partner": "$b"}, "linie": "Dom\\n$a\\n$city"}'),
            assistant('{"wynik": "$a i $b mieszkają w mieście $city."}'),
            user("Czy $A ($alow) i $a to ta sama osoba? I czyje jest konto $iban?"),
        ),
        (),
        {"author": "$a1", "user": "$a", "metadata": {"sprawa": "$b"}},
    ),
)
