"""Conversations in Italian."""

from __future__ import annotations

from benchmarks.conversations.scenario import Scenario, Tool, assistant, call, casts, developer, result, system, user

CASTS = casts(
    """
    Giulia Bianchi | Marco Esposito | Torino | Bianchi Arredi SRL | +39 011 555 0123
    Francesca De Luca | Alessandro Ferrari | Bologna | Emilia Motori SPA | +39 051 555 0456
    Niccolò Romano | Chiara D'Angelo | Palermo | Cantine Romano SRL | +39 091 555 0789
    Lorenzo Marchetti | Elisabetta Greco | Verona | Adige Salute SPA | +39 045 555 0234
    Simona Rizzo | Giovanni Colombo | Bergamo | Colombo Tessuti SRL | +39 035 555 0567
    Matteo Santoro | Ilaria Conti | Cagliari | Isola Verde SRL | +39 070 555 0890
    """
)

SCENARIOS = (
    Scenario(
        "letter",
        (
            system("Scrivi lettere per $b, della ditta $org. Firma ogni lettera con $b."),
            user("Sono $a, di $city. Di' a $b1 che giovedì non posso venire. Il mio numero è $phone."),
            assistant("Gentile $b,\n\n$a, di $city, non può venire giovedì. Può chiamare $a1 al $phone."),
            user("Grazie. Più breve, e scrivi che $a ha pagato sul conto $iban."),
        ),
    ),
    Scenario(
        "tools",
        (
            developer("Usa gli strumenti. Chiede $a."),
            user("Quando è stato $b a $city, e qual è l'indirizzo di posta di $b1?"),
            call('{"name": "$b", "filtro": {"citta": "$city", "dal": 2021}, "chiede": ["$a"]}'),
            result(
                '{"righe": [{"cliente": "$b", "mail": "$bmail", "nota": "Ora a $city\\n$a ha chiamato.\\tPagato."}]}'
            ),
            assistant("$b è stato a $city in marzo. L'indirizzo è $bmail."),
            user("Manda un promemoria a $b1, con copia a $mail."),
        ),
        (Tool("cerca_cliente", "Cerca un cliente, per esempio $b di $city.", {"name": "Come $b", "citta": "Città"}),),
        {"user": "$mail", "metadata": {"caso": "Reclamo di $a", "referente": "$b"}},
    ),
    Scenario(
        "tables",
        (
            system("Rispondi con tabelle. Questi sono i clienti:\n\nnome;citta\n$a;$city\n$b;$city"),
            user(
                "| Nome | Città | Telefono |\n|---|---|---|\n| $a | $city | $phone |\n| **$b** | $city | no |\n\n"
                "Chi non ha il telefono?"
            ),
            assistant("| Nome | Motivo |\n|---|---|\n| $b | $b2 non ha dato il numero a $a1 |"),
            user('nome,mail,ditta\n"$b",$bmail,"$org"\n"$a2, $a1",$mail,\n\nChi lavora da $org, $A o $b1?'),
        ),
    ),
    Scenario(
        "code",
        (
            system("Controlli programmi. Non cambiare i nomi."),
            user(
                '```python\n# scritto da $a\nCAPO = "$b"\n\ndef saluta(nome="$a1"):\n    '
                'return f"Ciao {nome} di $city"\n```\nMostra {"nome": "$a", "posto": "/srv/$aslug"}. Perché?'
            ),
            assistant("`CAPO` è `$b`, e il valore di `saluta` è `$a1`. Chieda a $a."),
            user(
                "Il registro dice: 2026-03-04 10:22:11 WARN accesso di $a ($mail) da $city fallito\\n$b ha aiutato.\n"
                "È stato $b?"
            ),
        ),
    ),
    Scenario(
        "mail",
        (
            user(
                "Da: $a <$mail>\nA: $b <$bmail>\nOggetto: Incontro a $city\n\nCiao $b1,\n\npossiamo vederci a $city? "
                "Il mio telefono è $phone.\n\nSaluti,\n$a1\n\n> Lunedì $b ha scritto:\n> Gentile famiglia $a2, "
                "abbiamo la vostra carta $card."
            ),
            assistant("$a vuole vedere $b a $city, e $b2 ha la carta $card."),
            user(
                "Lo stesso in HTML: <p>Ciao <b>$b</b>,</p><ul><li>$ahtml</li></ul>"
                '<a href="https://example.org/p?q=$aurl">$a</a>. Riassumilo per $b1.'
            ),
        ),
    ),
    Scenario(
        "profile",
        (
            system("Scrive $a, di $city, che lavora da $org."),
            user('{"profilo": {"nome": "$a", "alias": ["$a1", "$A"], "partner": "$b"}, "righe": "Vive\\n$a\\n$city"}'),
            assistant('{"sintesi": "$a e $b vivono a $city."}'),
            user("$A ($alow) è la stessa persona di $a? E il conto $iban è di $b o di $a1?"),
        ),
        (),
        {"author": "$a1", "user": "$a", "metadata": {"pratica": "di $b"}},
    ),
)
