"""Surrogates that a model writes in another form come back in that form: parts of addresses, dates, numbers."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Any

import pytest
from table_kit import rows, texts

from core.text.reversible.conversation import Region, mask_conversation
from core.text.reversible.mapping import Mapping, MaskedConversation
from core.text.surrogates.dates import month_of, read_date

KEY = b"k" * 32


def masked(*texts: str, language: str, values: tuple[tuple[str, str], ...], **options: Any) -> MaskedConversation:
    """Mask the values in the first text."""
    found = [Region(texts[0].index(each), texts[0].index(each) + len(each), type_) for each, type_ in values]
    regions = [found, *([] for _ in texts[1:])]
    done = mask_conversation(texts, regions, key=KEY, language=language, **options)
    assert [done.mapping.restore(text) for text in done.texts] == list(texts)
    return done


def restored(mapping: Mapping, text: str) -> str:
    """Restore a text, whole and character for character."""
    encoding = "json" if text.startswith("{") else "text"
    whole = mapping.restorer(encoding)
    result = whole.feed(text) + whole.end()
    pieces = mapping.restorer(encoding)
    assert "".join(map(pieces.feed, text)) + pieces.end() == result
    return result


def share(cases: Iterator[tuple[str, str, str]], *, least: int) -> None:
    """Check cases: a name, what came back and what is expected."""
    found = list(cases)
    wrong = [case for case in found if case[1] != case[2]]
    print(f"{len(found)} variations, {len(wrong)} wrong", *wrong[:40], sep="\n")
    assert len(found) >= least
    assert not wrong


LAST = r"(?P<street>.+) (?P<house>\d+), (?P<code>[\d-]+(?: [A-Z]{2})?) (?P<town>.+)"
FIRST = r"(?P<house>\d+) (?P<street>.+), (?P<code>\d+) (?P<town>.+)"
BRITISH = r"(?P<house>\d+) (?P<street>.+), (?P<town>.+) (?P<code>\w+ \w+)"
AMERICAN = r"(?P<house>\d+) (?P<street>.+), (?P<town>.+), (?P<region>[A-Z]{2}) (?P<code>\d{5})"
ADDRESSES = [
    ("de", "Rosenweg 4, 99084 Erfurt", LAST), ("de", "Lindengasse 8, 1070 Wien", LAST),
    ("en", "77 Elmhurst Avenue, Lakewood, CO 80226", AMERICAN),
    ("en", "14 Harcourt Road, Sheffield S10 1DG", BRITISH), ("fr", "4 rue des Lilas, 75011 Paris", FIRST),
    ("es", "Calle Mayor 5, 28013 Madrid", LAST), ("it", "Via Garibaldi 12, 20121 Milano", LAST),
    ("nl", "Keizersgracht 123, 1015 CJ Amsterdam", LAST), ("pl", "ul. Lipowa 5, 00-238 Warszawa", LAST),
    ("pt", "Rua Augusta 25, 1100-053 Lisboa", LAST),
]  # fmt: skip
PARTS = r"""
The zip is {code}. || PLZ: {code} || Sent to {town} today || ({town}) || {town}, zip {code} || It stands in {street}.
**{street}** || - {town}\n- {street} || {{"city": "{town}"}}
{{"street": "{street}", "zip": "{code}", "city": "{town}"}}
{{"order": {{"postal_code": "{code}", "lines": ["{street}"]}}}}
{{"addr": {{"house_number": "{house}", "street": "{street}"}}}} || {{"q": "{street}, {town}"}}
"""
LINES = r"""
{line} || Go to {line}! || {line}\n{town} || {{"street": "{line}", "plz": "{code}", "city": "{town}"}}
<td>{line}</td><td>{town}</td>
"""


def fields(address: str, form: str) -> dict[str, str]:
    found = re.fullmatch(form, address)
    assert found
    line = "{street} {house}" if form == LAST else "{house} {street}"
    return {**found.groupdict(), "line": line.format(**found.groupdict())}


def _addresses() -> Iterator[tuple[str, str, str]]:
    for language, address, form in ADDRESSES:
        done = masked(f"Order for Edda Voss, {address}.", language=language, values=((address, "LOCATION"),))
        own, new = fields(address, form), fields(done.mapping.content.pairs[0].surrogate, form)
        assert not {own["town"], own["street"], own["code"]} & set(new.values())
        for template in texts(PARTS + LINES.lstrip("\n")):
            yield address, restored(done.mapping, template.format(**new)), template.format(**own)
        for change in (str.upper, str.lower):
            yield address, restored(done.mapping, change(new["town"])), change(own["town"])
            yield address, restored(done.mapping, change(new["street"])), change(own["street"])
        if "region" in own:
            for template in ("{town}, {region} {code}", '{{"state": "{region}"}}', "{town}, {region}"):
                yield address, restored(done.mapping, template.format(**new)), template.format(**own)


def test_parts_of_an_address_come_back() -> None:
    share(_addresses(), least=200)


def _repeats() -> Iterator[tuple[str, str, str]]:
    for language, address, form in ADDRESSES:
        own = fields(address, form)
        later = [
            f"The zip is {own['code']}.", f"Is {own['street']} right?", f"and {own['line']} too",
            f"parcels in {own['town'].upper()} arrive", own["town"],
        ]  # fmt: skip
        done = masked(f"Ship to {address}.", *later, language=language, values=((address, "LOCATION"),))
        new = fields(done.mapping.content.pairs[0].surrogate, form)
        expected = [
            f"The zip is {new['code']}.", f"Is {new['street']} right?", f"and {new['line']} too",
            f"parcels in {new['town'].upper()} arrive", new["town"],
        ]  # fmt: skip
        yield from zip([address] * len(later), done.texts[1:], expected, strict=True)
        turn = masked(*later[:1], language=language, values=(), earlier=done.mapping.content)
        yield address, turn.texts[0], expected[0]


def test_parts_of_an_address_that_a_later_text_repeats_are_those_of_the_same_surrogate() -> None:
    share(_repeats(), least=50)


DATES = """
en | 31 October 1984 || en | 10/31/1984 || en | 1984-10-31 || en | March 4th, 1990 || de | 14.03.1991
de | 1. Mai 1956 || fr | 7 février 1979 || es | 12 de mayo de 2001 || it | 3 giugno 1968 || nl | 21 augustus 1995
pl | 5 października 1987 || pt | 9 de setembro de 1973
"""
_FIRST_NAMES = {"en": "january", "de": "januar", "fr": "janvier", "es": "enero", "it": "gennaio", "nl": "januari",
                "pl": "stycznia", "pt": "janeiro"}  # fmt: skip


def _month(day: date, language: str) -> str:
    found = month_of(_FIRST_NAMES[language], language)
    assert found
    name = found[0][day.month - 1]
    return name.capitalize() if language in ("en", "de") else name


def _date_forms(language: str) -> Iterator[Callable[[date], str]]:
    yield lambda day: day.isoformat()
    yield lambda day: f"{day:%d.%m.%Y}"
    yield lambda day: f"Born {day:%Y/%m/%d}, yes"
    yield lambda day: f"{day:%Y%m%d}"
    yield lambda day: f"{day:%Y-%m-%d}T00:00:00Z"
    yield lambda day: f"on {day.day} {_month(day, language)} {day.year}."
    yield lambda day: f"{_month(day, 'en')} {day.day}, {day.year}"
    yield lambda day: f"{day.day}. {_month(day, 'de')} {day.year}"
    yield lambda day: f"{day.day} de {_month(day, 'es')} de {day.year}"
    yield lambda day: f"{_month(day, language)} {day.year}"
    yield lambda day: f"seen {day.month}/{day.year}"
    yield lambda day: f"{day:%d.%m.%y}"
    if language == "en":
        yield lambda day: f"{day.day}-{day:%b-%Y}"
        yield lambda day: f"{day:%A}, {day.day} {_month(day, 'en')} {day.year}"
    yield lambda day: json.dumps({"dob": day.isoformat()})
    yield lambda day: json.dumps({"date_of_birth": f"{day:%m/%d/%Y}" if language == "en" else f"{day:%d/%m/%Y}"})


def _dates() -> Iterator[tuple[str, str, str]]:
    for language, written in rows(DATES):
        done = masked(f"Born: {written}, she said", language=language, values=((written, "DATE_OF_BIRTH"),))
        own, new = (
            read_date(each, language, language != "en") for each in (written, done.mapping.content.pairs[0].surrogate)
        )
        assert own
        assert new
        own_day, new_day = (date(each.year, each.month, each.day) for each in (own, new))
        for form in _date_forms(language):
            yield written, restored(done.mapping, form(new_day)), form(own_day)
        other = new_day + timedelta(days=40)
        yield written, restored(done.mapping, f"{other} {other.year}"), f"{other} {other.year}"


def test_dates_come_back_in_the_form_of_the_answer() -> None:
    share(_dates(), least=150)


# language, number, calling code, what stands before the national number in the country, the national number
PHONES = """
de | +49 171 4455667 | 49 | 0 | 1714455667 || de | 0171 4455667 | 49 | 0 | 1714455667
de | +49 (0)30 7654321 | 49 | 0 | 307654321 || en | +1 212-736-5000 | 1 |  | 2127365000
en | (212) 736-5000 | 1 |  | 2127365000 || en | +44 20 7123 4567 | 44 | 0 | 2071234567
fr | 01 44 55 66 77 | 33 | 0 | 144556677 || es | +34 612 345 678 | 34 |  | 612345678
it | +39 333 4567890 | 39 |  | 3334567890 || nl | 06-12345678 | 31 | 0 | 612345678
pl | +48 501 234 567 | 48 |  | 501234567 || pt | +351 912 345 678 | 351 |  | 912345678
"""
PHONE_FORMS = """
+{c}-{a}-{b} || +{c} {a} {b} || +{c}{a}{b} || tel:+{c}{a}{b} || 00{c}{a}{b} || {t}{a}{b} || {t}{a}-{b} || ({t}{a}) {b}
{t}{a}/{b} || +{c} (0){a} {b} || call {t}{a}.{b} || {{"phone": "+{c}{a}{b}"}} || {{"tel": "{t}{a} {b}"}}
https://wa.me/{c}{a}{b}
"""


def _phones() -> Iterator[tuple[str, str, str]]:
    for language, number, code, trunk, national in rows(PHONES):
        done = masked(f"Call {number} now", language=language, values=((number, "PHONE_NUMBER"),))
        digits = "".join(filter(str.isdecimal, done.mapping.content.pairs[0].surrogate))
        new = digits[-len(national) :]
        for form in texts(PHONE_FORMS):
            fresh, own = (form.format(c=code, t=trunk, a=each[:3], b=each[3:]) for each in (new, national))
            yield number, restored(done.mapping, fresh), own


def test_telephone_numbers_come_back_in_the_form_of_the_answer() -> None:
    share(_phones(), least=150)


NUMBERS = """
en | 4929 1234 5678 6562 | CREDIT_CARD || de | 5425233430109903 | CREDIT_CARD
de | DE89 3704 0044 0532 0130 00 | IBAN_CODE || fr | FR1420041010050500013M02606 | IBAN_CODE
en | 536-90-4399 | US_SSN || pl | 44051401359 | PL_PESEL
"""


def _groups(number: str, separator: str) -> str:
    bare = "".join(filter(str.isalnum, number))
    return separator.join(bare[at : at + 4] for at in range(0, len(bare), 4))


NUMBER_FORMS: list[Callable[[str], str]] = [
    lambda number: _groups(number, ""),
    lambda number: _groups(number, " "),
    lambda number: f"**{_groups(number, '-')}**",
    lambda number: f"No. {_groups(number, '.')}!" if number.isdecimal() else _groups(number, "\u00a0"),
    lambda number: json.dumps({"number": _groups(number, "")}),
    lambda number: json.dumps({"number": _groups(number, " ")}),
]
ENDINGS = """
card ending in {} || ending {} || ends with {} || the last four digits are {} || last 4: {} || **** **** **** {}
****{} || •••• {} || XXXX-XXXX-XXXX-{} || xxxx{} || endet auf {} || die letzten vier Ziffern {} || se terminant par {}
terminada en {} || che termina con {} || eindigend op {} || kończąca się na {} || terminado em {} || Visa {}
{{"last4": "{}"}} || {{"card_last_four": "{}"}} || ...{}
"""


def _numbers() -> Iterator[tuple[str, str, str]]:
    for language, number, type_ in rows(NUMBERS):
        done = masked(f"It is {number} as said", language=language, values=((number, type_),))
        surrogate = done.mapping.content.pairs[0].surrogate
        for form in NUMBER_FORMS:
            yield number, restored(done.mapping, form(surrogate)), form(number)
        if number[-4:].isdecimal():
            for template in texts(ENDINGS):
                yield number, restored(done.mapping, template.format(surrogate[-4:])), template.format(number[-4:])
            plain = f"It took {surrogate[-4:]} ms"
            yield number, restored(done.mapping, plain), plain


def test_numbers_come_back_in_any_groups_and_their_last_digits_after_a_label() -> None:
    share(_numbers(), least=100)


@pytest.mark.parametrize("fill", ["surrogate", "numbered"])
def test_an_address_of_an_email_after_a_mark_is_the_same_address(fill: str) -> None:
    mail = re.compile(r"[\w.+%^#=*~|/`$!&-]+@[\w.]+")
    for mark in (*"+-#_%^=*~|/`$!&", "++", "--", "+-", "_*", "#+"):
        for given in (("ole.berg@corp.example", f"{mark}ole.berg@corp.example"), (f"{mark}ole.berg@corp.example",)):
            regions = [[Region(*found.span(), "EMAIL_ADDRESS") for found in mail.finditer(text)] for text in given]
            done = mask_conversation(given, regions, key=KEY, fill=fill)
            surrogate = done.mapping.content.pairs[0].surrogate
            assert len(done.mapping) == 1
            assert done.texts[-1] == f"{mark}{surrogate}"
            assert restored(done.mapping, f"@@\n{mark}{surrogate}\n") == f"@@\n{mark}ole.berg@corp.example\n"


def test_addresses_of_a_conversation_share_no_part() -> None:
    names = [chr(97 + at % 26) + chr(97 + at // 26) for at in range(300)]
    addresses = [f"Am{name}weg {at + 1}, {at + 30_100} Neu{name}stadt" for at, name in enumerate(names)]
    text = "; ".join(addresses)
    found = [Region(text.index(each), text.index(each) + len(each), "LOCATION") for each in addresses]
    done = mask_conversation([text], [found], key=KEY, language="de")
    assert done.mapping.restore(done.texts[0]) == text
    parts = [fields(pair.surrogate, LAST) for pair in done.mapping.content.pairs]
    for name in ("street", "code", "town"):
        assert len({each[name] for each in parts}) == len(addresses)


def test_a_short_part_that_the_conversation_has_in_another_sense_is_not_restored() -> None:
    card = "4929 1234 5678 6562"
    first = masked(f"Card {card}", language="en", values=((card, "CREDIT_CARD"),))
    ending = first.mapping.content.pairs[0].surrogate[-4:]
    texts = (f"Card {card}", f"The other card ending in {ending} is mine, in {ending} days.")
    done = masked(*texts, language="en", values=((card, "CREDIT_CARD"),))
    if done.mapping.content.pairs[0].surrogate[-4:] == ending:
        assert done.mapping.restore(f"ending in {ending}") == f"ending in {ending}"


def test_a_state_and_its_postal_code_come_back_together() -> None:
    address = "912 Willow Creek Drive, Austin, TX 78704"
    done = masked(f"To {address}.", language="en", values=((address, "LOCATION"),))
    ending = done.texts[0].removesuffix(".").rpartition(", ")[2]
    assert ending != "TX 78704"
    for form in ('{{"region": "{}"}}', "I used {} as requested."):
        assert restored(done.mapping, form.format(ending)) == form.format("TX 78704")
