"""Sentences with slots for invented names: letters, forms, chats, reports, news and result tables.

A slot is `{kind}`. Its text is labelled `PERSON`, `LOCATION` or `ORGANIZATION`.
"""

from __future__ import annotations

import calendar
import random
from collections.abc import Callable

from gpu_workers.offline.names import Names

Marked = tuple[str, list[tuple[int, int, str]]]

_SLOT_TYPES = {
    "person": "PERSON",
    "first": "PERSON",
    "last": "PERSON",
    "place": "LOCATION",
    "city": "LOCATION",
    "country": "LOCATION",
    "address": "LOCATION",
    "org": "ORGANIZATION",
    "team": "ORGANIZATION",
    "cityteam": "ORGANIZATION",
}

TEMPLATES = """
Dear {first}, thank you for your letter of {date}.
Hi {first}, this is {first} from {org}. Could you call me back on {number}?
Hello, my name is {person} and I live at {address}.
Hey {first}! Are you coming to {city} this weekend?
Please send the parcel to {person}, {address}.
Please deliver it to {address} before {date}.
I moved to {address} last year.
My address is {address}. Please update your records.
Can you change my address to {address}?
I would like to order a taxi from {address} to {address}.
Ship to: {person}\\n{address}
{person}\\n{org}\\n{address}
From: {person}\\nTo: {person}\\nSubject: meeting in {city}
Name: {person}\\nCity: {city}\\nEmployer: {org}
Name: {person}, address: {address}, phone: {number}
Patient {person} was admitted to {org} on {date}.
The patient, {title}, was seen by {title} at {org}.
{title} said on {day} that the talks had failed.
{title} met {person} in {city} on {day}.
Kind regards, {person}
Best wishes,\\n{person}\\n{org}
Sincerely yours, {first}
Signed, {person}, {city}, {date}
I work for {org} in {city}.
I have been a customer of {org} since {year} and I live in {place}.
{person} has worked at {org} since {year}.
{person}, {age}, of {city}, was charged with fraud.
{person} ({age}) from {place} joined {org} as an engineer.
{org} has hired {person} as its new chief executive.
{org} said {day} it would buy {org} for $ {number} million.
Shares of {org} rose {number} percent after {org} raised its forecast.
{org} reported a net loss of {number} million for the quarter.
{org} opened an office in {city} and plans another in {country}.
A spokesman for {org} declined to comment.
{city} {isodate}
{city} , {date} ( {org} )
{city} ( {org} ) - The government said on {day} that it would hold talks with {country} .
{city}, {country} - Police in {place} arrested two men on {day}.
The president of {country} arrived in {city} on {day}.
Troops from {country} crossed into {country} near {place}.
The border between {country} and {country} was closed on {day}.
The {org} met in {city} to discuss the conflict in {country}.
The prime minister of {country}, {person}, will visit {country} next week.
An earthquake struck {place}, {country}, on {day}, killing {number} people.
The embassy in {city} issued a warning about travel to {place}.
{person} ( {country} ) beat {person} ( {country} ) {score} {score}
{number} - {person} ( {country} ) beat {person} ( {country} ) {score} {score} {score}
1. {person} ( {country} ) {time} 2. {person} ( {country} ) {time} 3. {person} ( {country} ) {time}
{number} {person} ( {country} ) , {person} ( {country} ) , {person} ( {country} )
{cityteam} {digit} {cityteam} {digit}
{team} {digit} {team} {digit}
{cityteam} {digit} {digit} {digit} {digit} {digit}
{cityteam} at {cityteam}
{cityteam} {digit} ( {last} {digit} , {last} {digit} ) {team} {digit} ( {last} {digit} )
{cityteam} beat {cityteam} {score} on {day} .
{team} signed {person} from {team} on {day}.
Striker {person} scored twice as {team} beat {team} {score}.
{person} of {cityteam} was sent off in the second half against {team}.
{country} beat {country} {score} in a friendly in {city}.
{country} : {person} , {person} , {person} , {person} , {person}
{person} c {last} b {last} {number}
Bowling : {last} {number}-{digit}-{number}-{digit} , {last} {number}-{digit}-{number}-{digit}
Coach {person} said {first} would miss the match in {city}.
He was born in {city}, {country}, and studied at {org}.
She grew up in {place} and moved to {city} in {year}.
{person} (born {date} in {city}) is a musician from {country}.
{person} was an actor who appeared with {person} in several films.
{person} and {person} live in {city} with their children.
My sister {first} and her husband {first} are visiting {place}.
Is {first} home? {first} wants to know.
thanks {first}, see you in {city}!
I saw {person} at {place} yesterday.
{first} told {first} that {last} would not come.
As {last} writes, the market in {place} is growing.
According to {person} of {org}, sales in {country} fell.
"We are very happy," said {person}, who runs {org}.
{person} filed a complaint against {org} in {city}.
The court in {city} ruled for {org} against {person}.
I bought it from {org} and it broke after {number} days.
The film stars {person} and {person} and was shot in {place}.
{person} directed it, but {person} steals every scene.
I flew from {city} to {city} with {org} and lost my bag.
The flight from {city} to {country} was late again.
The hotel in {city} near {place} was clean.
We met at {org}, {address}.
The office of {org} is at {address}.
What is the address of {org}? It is {address}.
The invoice from {org} names {person} as the contact.
Invoice to {org}, attention of {person}, {address}
Meeting notes: {first} asked {first} to call {org}.
{first}: did you see {person}? {first}: yes, in {city}.
Agent: how can I help you, {title}? Customer: my order from {org} never came to {city}.
The account holder is {person} and the card number is {number}{number}.
My name appears incorrectly on the statement, could you change it to {title}?
Who is {person}?
{person} is on the phone.
What is the weather in {city}?
Does {org} have a branch in {city}?
When is the next train from {place} to {place}?
Just posted a photo @ {place}
{person} is trending in {city}
watching {team} vs {team} with {first}
RT {org} : {person} to speak in {city} on {day}
In {year}, {org} moved its headquarters from {city} to {city}.
The {place} region of {country} is known for its wine.
Students of {org} protested in {city} against {org}.
{last} , {first}
{person} | {org} | {city}
{person}; {person}; {person}
Attendees: {person}, {person}, {first} and {first}
cc: {person}, {person} ({org})
{title} of {org} lives at {address} with {first}.
The driver, identified as {person} of {city}, {place}, was not hurt.
{org} and {org} agreed to merge, {title} said.
We are looking for {person}, last seen near {place} in {city}.
On {date} {person} sold the house at {address} to {org}.
"""

PLAIN = """
The meeting is on Monday at three. Please bring the report.
I Love This Movie And You Should See It
The Internet is slow today, and my iPhone will not charge.
THIS IS NOT FUNNY AT ALL
In March the prices rose; by April, nobody cared.
Terms and Conditions apply. See Section 4 and Table 2.
Can I Change My PIN On The App?
Happy New Year! Merry Christmas to everyone.
How do I cancel my Visa card? I need it by Friday.
The English and French teams met. German cars are expensive.
Dow Jones and Nasdaq fell. Windows 10 needs an update.
The Bible and the Koran are on the shelf, beside War and Peace.
Please enter your password and press OK.
SOCCER - WORLD CUP QUALIFYING RESULTS .
Results of first division matches on Sunday :
Standings ( tabulate under played , won , drawn , lost , points ) :
The World Series and the Super Bowl draw large audiences.
"""


def _number(rng: random.Random) -> str:
    return str(rng.randrange(10 ** rng.randrange(1, 6)))


_MONTHS = list(calendar.month_name)[1:]
_FILLERS: dict[str, Callable[[random.Random], str]] = {
    "date": lambda rng: f"{rng.choice(_MONTHS)} {rng.randrange(1, 29)}, {rng.randrange(1950, 2027)}",
    "isodate": lambda rng: f"{rng.randrange(1980, 2027)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
    "day": lambda rng: rng.choice(list(calendar.day_name)),
    "year": lambda rng: str(rng.randrange(1900, 2027)),
    "age": lambda rng: str(rng.randrange(18, 95)),
    "digit": lambda rng: str(rng.randrange(10)),
    "score": lambda rng: f"{rng.randrange(20)}-{rng.randrange(20)}",
    "time": lambda rng: f"{rng.randrange(1, 4)}:{rng.randrange(60):02}.{rng.randrange(100):02}",
    "number": _number,
}


def fill(template: str, names: Names, rng: random.Random) -> Marked:
    """Fill the template's slots. Return the text, and (start, end, type) of every name in it."""
    makers: dict[str, Callable[[random.Random], str]] = {
        "person": names.person,
        "first": names.first,
        "last": names.last,
        "place": names.place,
        "city": names.city,
        "country": names.country,
        "address": names.address,
        "org": names.organisation,
        "team": names.team,
        "cityteam": names.city,
    }
    text, spans = "", []
    for number, part in enumerate(template.replace("\\n", "\n").replace("}", "{").split("{")):
        if number % 2 == 0:
            text += part
        elif part in _FILLERS:
            text += _FILLERS[part](rng)
        elif part == "title":
            title, name = names.titled(rng)
            text += f"{title} "
            spans.append((len(text), len(text) + len(name), "PERSON"))
            text += name
        else:
            name = makers[part](rng)
            spans.append((len(text), len(text) + len(name), _SLOT_TYPES[part]))
            text += name
    return text, spans


def draw(names: Names, rng: random.Random) -> Marked:
    """Return a filled template or, sometimes, a sentence without a name."""
    lines = _PLAIN_LINES if rng.random() < 0.12 else _LINES
    return fill(rng.choice(lines), names, rng)


_LINES = TEMPLATES.strip().split("\n")
_PLAIN_LINES = PLAIN.strip().split("\n")
