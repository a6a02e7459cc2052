"""Conversations in French."""

from __future__ import annotations

from benchmarks.conversations.scenario import Scenario, Tool, assistant, call, casts, developer, result, system, user

CASTS = casts(
    """
    Élodie Lefèvre | Hervé Dupont | Nantes | Boulangerie Lefèvre SARL | +33 2 40 99 01 23
    Jean-Luc Moreau | Camille d'Aubigny | Grenoble | Alpes Énergie SA | +33 4 76 99 04 56
    Zoé Garnier | Karim Benali | Marseille | Clinique des Pins SA | +33 4 91 99 07 89
    Mathilde Rousseau | Antoine Girard | Lille | Girard Textiles SARL | +33 3 20 99 02 34
    Pascal Bertrand | Nathalie Chevalier | Rennes | Ouest Conseil SARL | +33 2 99 99 05 67
    Aurélie Fontaine | Guillaume Petitjean | Dijon | Caves Fontaine SA | +33 3 80 99 08 90
    Benoît Marchand | Inès Delacroix | Toulouse | Aérologique SA | +33 5 61 99 03 45
    Sylvie Perrin | Olivier Lambert | Genève | Banque du Léman SA | +41 22 555 06 78
    """
)

SCENARIOS = (
    Scenario(
        "letter",
        (
            system("Vous écrivez des lettres pour $b, de la société $org. Signez-les $b."),
            user("Je suis $a, de $city. Dites à $b1 que je ne viendrai pas jeudi. Mon numéro est le $phone."),
            assistant("Bonjour $b,\n\n$a, de $city, ne viendra pas jeudi. Vous pouvez joindre $a1 au $phone."),
            user("Merci. Plus court, et ajoutez que $a a payé sur le compte $iban."),
        ),
    ),
    Scenario(
        "tools",
        (
            developer("Utilise les outils. La question vient de $a."),
            user("Quand $b est-il venu à $city, et quelle est l'adresse électronique de $b1 ?"),
            call('{"name": "$b", "filtre": {"ville": "$city", "depuis": 2021}, "demande": ["$a"]}'),
            result('{"lignes": [{"client": "$b", "mail": "$bmail", "note": "Parti à $city\\n$a a appelé.\\tPayé."}]}'),
            assistant("$b est venu à $city en mars. Son adresse est $bmail."),
            user("Envoie un rappel à $b1, avec copie à $mail."),
        ),
        (
            Tool(
                "chercher_client", "Cherche un client, par exemple $b de $city.", {"name": "Comme $b", "ville": "Ville"}
            ),
        ),
        {"user": "$mail", "metadata": {"dossier": "Plainte de $a", "suivi": "$b"}},
    ),
    Scenario(
        "tables",
        (
            system("Réponds par des tableaux. Voici les clients :\n\nnom;ville\n$a;$city\n$b;$city"),
            user(
                "| Nom | Ville | Téléphone |\n|---|---|---|\n| $a | $city | $phone |\n| **$b** | $city | aucun |\n\n"
                "Qui n'a pas de téléphone ?"
            ),
            assistant("| Nom | Raison |\n|---|---|\n| $b | $b2 n'a pas donné son numéro à $a1 |"),
            user('nom,mail,employeur\n"$b",$bmail,"$org"\n"$a2, $a1",$mail,\n\nQui travaille chez $org, $A ou $b1 ?'),
        ),
    ),
    Scenario(
        "code",
        (
            system("Tu relis des programmes. Ne change pas les noms."),
            user(
                '```python\n# écrit par $a\nCHEF = "$b"\n\ndef saluer(nom="$a1"):\n    '
                'return f"Bonjour {nom} de $city"\n```\nIl affiche {"nom": "$a", "lieu": "/srv/$aslug"}. Pourquoi ?'
            ),
            assistant("`CHEF` vaut `$b`, et `saluer` prend `$a1` par défaut. Demandez à $a."),
            user(
                "Le journal dit : 2026-03-04 10:22:11 WARN échec de connexion de $a ($mail) depuis $city\\n$b a aidé.\n"
                "Était-ce $b ?"
            ),
        ),
    ),
    Scenario(
        "mail",
        (
            user(
                "De : $a <$mail>\nÀ : $b <$bmail>\nObjet : Rendez-vous à $city\n\nBonjour $b1,\n\n"
                "pouvons-nous nous voir à $city ? Mon téléphone : $phone.\n\nCordialement,\n$a1\n\n"
                "> Lundi, $b a écrit :\n> Chère famille $a2, nous avons votre carte $card."
            ),
            assistant("$a veut voir $b à $city, et $b2 a la carte $card."),
            user(
                "La même chose en HTML : <p>Bonjour <b>$b</b>,</p><ul><li>$ahtml</li></ul>"
                '<a href="https://example.org/p?q=$aurl">$a</a>. Résume-le pour $b1.'
            ),
        ),
    ),
    Scenario(
        "profile",
        (
            system("L'utilisateur est $a, de $city, qui travaille chez $org."),
            user(
                '{"profil": {"nom": "$a", "alias": ["$a1", "$A"], "conjoint": "$b"}, "lignes": "Habite\\n$a\\n$city"}'
            ),
            assistant('{"bilan": "$a et $b habitent à $city."}'),
            user("$A ($alow) et $a sont-ils la même personne ? Et le compte $iban est-il à $b ou à $a1 ?"),
        ),
        (),
        {"author": "$a1", "user": "$a", "metadata": {"dossier": "de $b"}},
    ),
)
