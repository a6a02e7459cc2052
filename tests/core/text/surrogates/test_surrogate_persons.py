"""Surrogates of names of persons keep the form, the gender and the parts of the originals."""

import re

from surrogate_kit import all_of, surrogates_of
from table_kit import rows

from core.text.surrogates.names import LOCALES, gender_of, lists_of, main_gender

WOMEN = {
    "en": "Sarah", "de": "Sabine", "es": "Lucía", "fr": "Camille", "it": "Giulia", "nl": "Sanne", "pl": "Agnieszka",
}  # fmt: skip
MEN = {
    "en": "Robert", "de": "Jürgen", "es": "Javier", "it": "Giuseppe", "nl": "Willem", "pl": "Krzysztof", "pt": "João",
}  # fmt: skip


def persons(*names, language="en"):
    return all_of("PERSON", *names, language=language)


def test_names_are_of_the_language_and_of_the_gender():
    for language in LOCALES:
        lists = lists_of(language)
        for _ in range(5):
            for names, given in ((lists.female, WOMEN.get(language)), (lists.male, MEN.get(language))):
                if given and gender_of(given, language):
                    (name,) = persons(f"{given} Example", language=language)
                    first, last = name.split()
                    assert first in names
                    assert last in lists.surnames


def test_endings_tell_the_gender_of_a_name_that_no_list_has():
    for given, names in (("Brunhylda", lists_of("pl").female), ("Domarad", lists_of("pl").male)):
        assert persons(f"{given} Testowy", language="pl")[0].split()[0] in names


def test_a_name_of_both_genders_has_that_of_the_title_or_its_main_one():
    for original, male in [
        ("Sr. José García", True), ("señor María", True), ("José", True), ("José María García", True),
        ("Sra. María García", False), ("señora José", False), ("María", False),
    ]:  # fmt: skip
        lists = lists_of("es")
        own, others = (lists.male, lists.female) if male else (lists.female, lists.male)
        drawn = {persons(original, language="es")[0].removeprefix(original.split()[0] + " ") for _ in range(20)}
        for name in drawn:
            given = name.split()[0]
            assert given in own
            assert given not in others or main_gender(given) in (None, "m" if male else "f")


def test_polish_surnames_agree_with_the_gender():
    for _ in range(5):
        anna, jan, alone, other = persons(
            "Anna Kowalska", "Jan Kowalski", "Kowalska", "Ewa Zielińska-Nowak", language="pl"
        )
        assert anna.split()[1].endswith(("ska", "cka", "dzka"))
        assert jan.split()[1].endswith(("ski", "cki", "dzki"))
        assert anna.split()[1][:-1] == jan.split()[1][:-1], "one family name has one surrogate"
        assert alone == anna.split()[1]
        assert other.split()[1].split("-")[0].endswith(("ska", "cka", "dzka"))


def test_later_mentions_of_a_part_agree_with_the_full_name():
    full, last, first, lower, capitals, initial, comma = persons(
        "John Smith", "Smith", "John", "john smith", "SMITH", "J. Smith", "Smith, John"
    )
    given, surname = full.split()
    assert (last, first, lower) == (surname, given, full.lower())
    assert capitals == surname.upper()
    assert initial == f"{given[0]}. {surname}"
    assert comma == f"{surname}, {given}"


def test_a_part_before_its_full_name_agrees_as_well():
    last, full = persons("Kowalska", "Anna Kowalska", language="pl")
    assert full.endswith(f" {last}")


def test_the_form_is_kept():
    for original, form, language in rows(r"""
        SMITH John | [A-Z]+ [A-Z][a-z]+ | en || K. Brown | [A-Z]\. [A-Z]\w+ | en
        James T. Kirk | \w+ [A-Z]\. \w+ | en || Hans-Peter Müller-Schmidt | \w+-\w+ \w+-\w+ | de
        Dr. Karl von der Heide | Dr\. \w+ von der \w+ | de || María García López | \w+ \w+ \w+ | es
        mary jones | [a-z]+ [a-z]+ | en || Mr. O'Brien | Mr\. \w+ | en || Jones's | \w+'s | en
    """):
        (name,) = persons(original, language=language)
        assert re.fullmatch(form, name), name
        assert name != original


def test_no_part_of_a_name_is_a_part_of_another():
    names = ["Mary Jones", "Peter Miller", "Susan Baker", "James Cook", "Linda Young", "Mark Hill"] * 3
    for _ in range(10):
        parts = {part for name in persons(*names) for part in name.casefold().split()}
        assert not parts & {part for name in names for part in name.casefold().split()}
        assert len(parts) == 12, "two different parts never share a surrogate"


def test_a_user_name_of_a_person_follows_the_name():
    name, mail, user = surrogates_of(
        ("PERSON", "Anna Kowalska"),
        ("EMAIL_ADDRESS", "anna.kowalska@firma.pl"),
        ("USERNAME", "@akowalska7"),
        language="pl",
    )
    first = name.split()[0]
    assert mail.isascii()
    assert re.fullmatch(r"[a-z]+\.[a-z]+@example\.(com|org|net)", mail)
    assert mail[0] == first[0].lower()
    assert re.fullmatch(r"@[a-z]+\d", user)


def test_a_name_in_an_address_never_replaces_itself():
    for number in range(2_000):
        mails = all_of("EMAIL_ADDRESS", "jane.carter@example.org", "tom_7@example.org", key=number.to_bytes(32))
        assert not {"jane", "carter", "tom"} & set(re.split(r"\W|_", " ".join(mails)))


def test_an_unknown_language_is_english():
    lists = lists_of("en")
    for language in ("unknown", "xx", None):
        first, last = all_of("PERSON", "Mary Jones", language=language)[0].split()
        assert (first in lists.female, last in lists.surnames) == (True, True)
