"""PASSWORD, USERNAME, DATE_OF_BIRTH, DATE_TIME, AGE and COORDINATE: what a context shows, and what it does not."""

from core.text.lists import AllowLists
from core.text.policy import MaskPolicy
from core.text.sanitize import inspect

FOUND = [
    ("PASSWORD", "password: hunter2", "hunter2"),
    ("PASSWORD", "The password is Tr0ub4dor&3.", "Tr0ub4dor&3"),
    ("PASSWORD", "mysql -u root -pGr8-Tree db", "Gr8-Tree"),
    ("PASSWORD", "password: sunshine\n", "sunshine"),
    ("PASSWORD", "Your PIN is 4821.", "4821"),
    ("PASSWORD", "482913 is your verification code", "482913"),
    ("USERNAME", "username: jdoe42", "jdoe42"),
    ("USERNAME", "ls /home/jdoe/notes", "jdoe"),
    ("USERNAME", r"C:\Users\jdoe\notes", "jdoe"),
    ("USERNAME", 'user "jdoe" logged in', "jdoe"),
    ("USERNAME", "Failed password for invalid user jdoe from 10.0.0.1", "jdoe"),
    ("USERNAME", "thanks @jdoe_42!", "@jdoe_42"),
    ("DATE_OF_BIRTH", "born on 3 May 1984 in Rome", "3 May 1984"),
    ("DATE_OF_BIRTH", "DOB: 05/03/84", "05/03/84"),
    ("DATE_OF_BIRTH", "am 3. Mai 1984 in Köln geboren", "3. Mai 1984"),
    ("DATE_OF_BIRTH", '"dob": "19840503"', "19840503"),
    ("DATE_OF_BIRTH", "urodzony 3 maja 1984 r.", "3 maja 1984 r."),
    ("DATE_TIME", "on Tuesday, May 3rd, 2022 we met", "Tuesday, May 3rd, 2022"),
    ("DATE_TIME", "le 1er mai 2020 à 14h30", "1er mai 2020 à 14h30"),
    ("DATE_TIME", "um 14.30 Uhr", "14.30 Uhr"),
    ("DATE_TIME", "at 2024-05-03T14:30:00Z", "2024-05-03T14:30:00Z"),
    ("AGE", "a 93-year-old man", "93-year-old"),
    ("AGE", "aged 91", "91"),
    ("COORDINATE", "52.5200° N, 13.4050° E", "52.5200° N, 13.4050° E"),
    ("COORDINATE", "geo:52.5163,13.3777", "geo:52.5163,13.3777"),
    ("COORDINATE", "GPS 52.5163 13.3777", "52.5163 13.3777"),
    ("COORDINATE", "52°31'12.0\"N 13°24'18.0\"E", "52°31'12.0\"N 13°24'18.0\"E"),
]
NOT_FOUND = [
    ("PASSWORD", "The password is required."),
    ("PASSWORD", "def f(password: str, x): ..."),
    ("PASSWORD", "password = form.password.data"),
    ("PASSWORD", "Passwort vergessen? Bitte anfordern."),
    ("USERNAME", "user = request.user"),
    ("USERNAME", "username: str"),
    ("USERNAME", "@property\ndef size(self): ..."),
    ("USERNAME", "login as root"),
    ("DATE_OF_BIRTH", "The contract of 3 May 1984"),
    ("DATE_OF_BIRTH", "born in Paris, died on 3 May 1984"),
    ("DATE_OF_BIRTH", "He was born in Leeds. He joined on 3 May 1984."),
    ("DATE_TIME", "version 1.2.3 has a ratio of 16:9"),
    ("AGE", "aged 89"),
    ("AGE", "for 92 years the house stood empty"),
    ("COORDINATE", "version 1.2345, then 2.3456"),
    ("COORDINATE", "weights [0.1234, 0.5678, 0.9]"),
]


def finds(entity: str, text: str) -> list[str]:
    found = inspect(text, MaskPolicy(entities=(entity,)), AllowLists())
    return [found.text[mask.start : mask.end] for mask in found.masks]


def test_a_context_shows_a_value() -> None:
    for entity, text, value in FOUND:
        assert finds(entity, text) == [value]


def test_other_words_dates_and_numbers_are_left_alone() -> None:
    for entity, text in NOT_FOUND:
        assert finds(entity, text) == []


def test_a_repeated_beginning_does_not_stall() -> None:
    for entity in ["SECRET", "PASSWORD", "USERNAME", "DATE_OF_BIRTH", "DATE_TIME", "AGE", "COORDINATE"]:
        for unit in ["api_key=", "born 1", "1/1/", "May ", "user ", "eyJ", "pin 1", "1.2345 ", "93 ", "://a:", "@a"]:
            finds(entity, (unit * 10_000)[:10_000])


def test_a_long_text_without_spaces_is_read_to_its_end() -> None:
    types = ("SECRET", "PASSWORD", "USERNAME", "DATE_OF_BIRTH", "DATE_TIME", "AGE", "COORDINATE")
    found = inspect("aB3" * 100_000 + ";password=hunter2", MaskPolicy(entities=types), AllowLists())
    assert [(found.text[mask.start : mask.end], mask.type) for mask in found.masks][-1:] == [("hunter2", "PASSWORD")]
