"""Conversations in English."""

from __future__ import annotations

from benchmarks.conversations.scenario import Scenario, Tool, assistant, call, casts, developer, result, system, user

CASTS = casts(
    """
    Emily Carter | Daniel Hughes | Norwich | Larkfield Foods Ltd | +44 20 7946 0011
    Oliver Bennett | Priya Raman | Leicester | Bennett & Sons Ltd | +44 113 496 0132
    Charlotte Davies | Marcus Whitfield | Swansea | Harbour Lane Clinic | +44 29 2018 0245
    James O'Connor | Siobhan Murphy | Galway | O'Connor Shipping Inc | +44 28 9018 0777
    Hannah Goldberg | Tyrone Jackson | Baltimore | Chesapeake Credit Union | +1 410 555 0148
    Sofia Ramirez | Brandon Miller | Phoenix | Desert Ridge Hospital | +1 602 555 0173
    Mei-Ling Chen | Robert Kowalski | Seattle | Pine Street Dental Inc | +1 206 555 0119
    Aisha Rahman | Thomas Fletcher | Bradford | Northgate Insurance Ltd | +44 1632 960244
    Lucas Andersson | Naomi Clarke | Toronto | Maple Court Housing Inc | +1 416 555 0192
    Zoë Whitaker | Jean-Paul Mercer | Bristol | Avonside Museum | +44 117 496 0088
    Fatima Al-Hassan | George Pemberton | Manchester | Pemberton Logistics Ltd | +44 161 496 0301
    William Archer-Hale | Ingrid Solberg | Edinburgh | Caledonia Software Ltd | +44 131 496 0456
    """
)

SCENARIOS = (
    Scenario(
        "letter",
        (
            system("You write letters for $b of $org. Sign each one with $b."),
            user("I am $a from $city. Please tell $b1 that I cannot come on Thursday. My number is $phone."),
            assistant("Dear $b,\n\n$a of $city cannot come on Thursday. You reach $a1 at $phone.\n\nKind regards"),
            user("Thanks. Now shorter, and mention that $a's husband paid to $iban."),
        ),
    ),
    Scenario(
        "tools",
        (
            developer("Use the tools. The person who asks is $a."),
            user("When did $b last visit us in $city, and what is the e-mail of $b1?"),
            call('{"name": "$b", "filter": {"city": "$city", "since": 2021}, "asked_by": ["$a"]}'),
            result('{"rows": [{"customer": "$b", "mail": "$bmail", "note": "Moved to $city\\n$a called.\\tPaid."}]}'),
            assistant("$b visited $city in March. The address is $bmail."),
            user("Send $b1 a reminder, and a copy to $mail."),
        ),
        (
            Tool(
                "find_customer", "Finds a customer, for example $b of $city.", {"name": "Such as $b", "city": "A town"}
            ),
        ),
        {"user": "$mail", "metadata": {"case": "Complaint of $a", "owner": "$b"}},
    ),
    Scenario(
        "tables",
        (
            system("Answer with tables. Your customers are in the list below.\n\nname;town\n$a;$city\n$b;$city"),
            user(
                "| Name | Town | Phone |\n|---|---|---|\n| $a | $city | $phone |\n| **$b** | $city | none |\n\n"
                "Who has no telephone?"
            ),
            assistant("| Name | Reason |\n|---|---|\n| $b | $b2 gave no number to $a1 |"),
            user('name,mail,employer\n"$b",$bmail,"$org"\n"$a2, $a1",$mail,\n\nWho works for $org, $A or $b1?'),
        ),
    ),
    Scenario(
        "code",
        (
            system("You review code. Never change names."),
            user(
                '```python\n# written by $a\nOWNER = "$b"\n\ndef greet(name="$a1"):\n    '
                'return f"Hello {name} of $city"\n```\nIt prints {"user": "$a", "home": "/srv/$aslug"}. Why?'
            ),
            assistant("`OWNER` is `$b`, and the default of `greet` is `$a1`. Ask $a for the reason."),
            user(
                "The log says: 2026-03-04 10:22:11 WARN login of $a ($mail) from $city failed\\n$b reset it.\n"
                "Did $b do it?"
            ),
        ),
    ),
    Scenario(
        "mail",
        (
            user(
                "From: $a <$mail>\nTo: $b <$bmail>\nSubject: Meeting in $city\n\nHi $b1,\n\ncan we meet in $city? "
                "Call me on $phone.\n\nBest,\n$a1\n\n> On Monday, $b wrote:\n> Dear Ms $a2, we have your card $card."
            ),
            assistant("$a wants to meet $b in $city, and $b2 has the card $card."),
            user(
                "Here is the same as HTML: <p>Dear <b>$b</b>,</p><ul><li>$ahtml</li></ul>"
                '<a href="https://example.org/p?q=$aurl">$a</a>. Summarise it for $b1.'
            ),
        ),
    ),
    Scenario(
        "profile",
        (
            system("The user is $a, who was born in $city and works at $org."),
            user(
                '{"profile": {"name": "$a", "aliases": ["$a1", "$A"], "partner": "$b"}, "lines": "Home\\n$a\\n$city"}'
            ),
            assistant('{"summary": "$a and $b live in $city."}'),
            user("Is $A ($alow) the same person as $a? And whose account is $iban, $b's or $a1's?"),
        ),
        (),
        {"author": "$a1", "user": "$a", "metadata": {"ticket": "from $b"}},
    ),
)
