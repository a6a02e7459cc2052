"""Surrogates of places and contacts keep the kind of each part."""

import re

from surrogate_kit import all_of

from core.text.surrogates.places import countries, towns

# some names in the lists have digits
STREET = r"(?:[^,\d]+|Konstytucji 3 Maja|Av Nacional 209)"
TOWN = r"(?:[12]e )?[^,\d]+"


def test_an_address_keeps_its_parts():
    for original, form, language in [
        ("Hauptstraße 12, 10115 Berlin", r"[^,\d]+ \d\d, \d{5} [^,\d]+", "de"),
        ("Hauptstr. 12a\n10115 Berlin", r"[^,\d\n]+ \d\da\n\d{5} [^,\d\n]+", "de"),
        ("10 Downing Street, London SW1A 2AA", r"\d\d [^,\d]+, [^,\d]+ [A-Z]{2}\d[A-Z] \d[A-Z]{2}", "en"),
        ("123 Main St, Apt 4B, Springfield, IL 62704", r"\d{3} [^,\d]+, Apt \dB, [^,\d]+, [A-Z]{2} \d{5}", "en"),
        ("12 rue de la Paix, 75002 Paris", r"\d\d [^,\d]+, \d{5} [^,\d]+", "fr"),
        ("ul. Długa 5/7, 00-238 Warszawa", r"ul\. [^,]+ \d/\d, \d\d-\d{3} [^,\d]+", "pl"),
        ("ul. Długa 5 m. 3, 00-238 Warszawa", rf"ul\. {STREET} \d m\. \d, \d\d-\d{{3}} [^,\d]+", "pl"),
        ("Długa 5 lok. 12, 00-238 Warszawa", rf"{STREET} \d lok\. \d\d, \d\d-\d{{3}} [^,\d]+", "pl"),
        ("ul. Długa 5, m. 3, 00-238 Warszawa", rf"ul\. {STREET} \d, m\. \d, \d\d-\d{{3}} [^,\d]+", "pl"),
        ("Keizersgracht 123, 1015 CJ Amsterdam", rf"{STREET} \d{{3}}, \d{{4}} [A-Z]{{2}} {TOWN}", "nl"),
        ("Via Roma 12, 00184 Roma (RM)", r"[^,\d]+ \d\d, \d{5} [^,\d]+ \([A-Z]{2}\)", "it"),
        ("Calle Mayor 5, 28013 Madrid", r"[^,\d]+ \d, \d{5} [^,\d]+", "es"),
        ("Rua Augusta, 45, 1100-048 Lisboa", rf"{STREET}, \d\d, \d{{4}}-\d{{3}} {TOWN}", "pt"),
    ]:
        for _ in range(5):
            (new,) = all_of("LOCATION", original, language=language)
            assert re.fullmatch(form, new), new


def test_the_postal_code_shows_the_country():
    for _ in range(5):
        (new,) = all_of("LOCATION", "ul. Prosta 3, 00-850 Warszawa", language="en")
        assert new.split(" ")[-1] in {word for town in towns("pl_PL") for word in town.split(" ")}


def test_a_town_stays_a_town_and_a_country_a_country():
    town, country, capitals = all_of("LOCATION", "Köln", "Frankreich", "HAMBURG", language="de")
    assert town in towns("de_DE")
    assert country in countries("de")
    assert capitals.isupper()


def test_the_country_of_an_address_stays_unless_it_is_masked_itself():
    assert all_of("LOCATION", "Köln, Deutschland", language="de")[0].endswith(", Deutschland")
    address, country = all_of("LOCATION", "Köln, Deutschland", "Deutschland", language="de")
    assert "Deutschland" not in (address.split(", ")[1], country)


def test_companies_keep_the_legal_form():
    bank, short, one = all_of("ORGANIZATION", "Deutsche Bank AG", "IBM", "Siemens GmbH", language="de")
    assert re.fullmatch(r".+ AG", bank)
    assert re.fullmatch(r"[A-Z]{3}", short)
    assert re.fullmatch(r"\S+ GmbH", one)


def test_web_addresses_keep_their_form():
    long, bare, plain = all_of(
        "URL", "https://intra.corp.internal/docs/report.pdf?u=jo", "www.corp.de", "http://corp.de:8080/x"
    )
    assert re.fullmatch(r"https://[a-z]+\.example\.(com|org|net)/[a-z]{4}/[a-z]{6}\.pdf\?[a-z]=[a-z]{2}", long)
    assert re.fullmatch(r"www\.example\.(com|org|net)", bare)
    assert re.fullmatch(r"http://[a-z]+\.example\.(com|org|net):\d{4}/[a-z]", plain)


def test_mail_addresses_have_the_style_of_the_original():
    dotted, initial, digits, capitals = all_of(
        "EMAIL_ADDRESS", "mary.jones@corp.com", "m_jones@corp.com", "jones84@corp.com", "MARY@CORP.COM"
    )
    domain = r"@example\.(com|org|net)"
    assert re.fullmatch(r"[a-z]+\.[a-z]+" + domain, dotted)
    assert re.fullmatch(r"[a-z]_[a-z]+" + domain, initial)
    assert re.fullmatch(r"[a-z]+\d\d" + domain, digits)
    assert re.fullmatch(r"[A-Z]+@EXAMPLE\.(COM|ORG|NET)", capitals)
