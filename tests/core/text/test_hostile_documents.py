"""Documents that are made to cost time or memory: each is refused, or read within a multiple of its size."""

import signal
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tiers import cells

from core.errors import InvalidInput
from core.text.formats.builder import FORMATS, Action, FormatLimits, FormatOptions, JsonChoices, parse

SIZE = 300_000
BYTES_PER_CHARACTER_MAX = 200
PROCESSOR_S_MAX = 60  # what is linear takes a second or two, and what is not takes hours


@pytest.fixture(autouse=True)
def _ends() -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise AssertionError("the time is not linear in the document")

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, PROCESSOR_S_MAX)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


def read(form: str, text: str, options: FormatOptions | None = None) -> str:
    """The view of a document."""
    found = parse(form, text, options or FormatOptions(), FormatLimits())
    return found.view


def repeated(unit: str) -> str:
    return unit * (SIZE // len(unit))


def toml(content: str) -> str:
    return f"+++\n{content}\n+++\n"


def test_keys_of_toml_are_bounded_before_they_are_parsed() -> None:
    for content in [
        ".".join(["a"] * 10_000) + " = 1", ".".join(['"a"'] * 10_000) + " = 1", " . ".join(["'a'"] * 10_000) + " = 1",
        "[" + ".".join(["a"] * 10_000) + "]", "[[" + "\t.\t".join(["a"] * 10_000) + "]]",
        "a = {" + ".".join(["a"] * 10_000) + " = 1}", 'a = "#"\nb = """\n"""\n' + ".".join(["a"] * 10_000) + " = 1",
        "a = '''x''''\n# \"\n" + ".".join(["a"] * 10_000) + " = 1",
        "\n".join(f"a{n}." + ".".join(["b"] * 90) + " = 1" for n in range(300)),
        "\n".join(f"[a{n}]" for n in range(30_000)), "\n".join(f"a{n} = {{}}" for n in range(30_000)),
    ]:  # fmt: skip
        with pytest.raises(InvalidInput) as refused:
            read("markdown", toml(content))
        assert refused.value.field == "text"


def test_ordinary_toml_is_within_the_bounds() -> None:
    for content in [
        'a.b."c.d".e = "x. y. z."', 'text = "' + "One. " * 5_000 + '"', 'text = """' + "a.b.c\n" * 5_000 + '"""',
        "text = '''" + "a.b.c = 1 [" * 5_000 + "'''", "# " + "a.b" * 5_000 + "\na = 1",
        "\n".join(f"key{n} = 'Maria'" for n in range(5_000)),
    ]:  # fmt: skip
        assert "+++" not in read("markdown", toml(content))


@pytest.mark.parametrize(
    ("form", "text"),
    cells(
        [
            ("markdown", "---\n{" + "a: {}, " * 8_000 + "}\n---\n"),
            ("html", "<a " + "a=1 " * 15_000 + ">"),
            ("markdown", "---\na: [" + "a," * 30_000 + "a]\n---\n"),
            ("markdown", "---\n" + "- a\n" * 15_000 + "---\n"),
            ("html", "<a " + "a " * 30_000 + ">"),
        ],
        fast=2,
    ),
)
def test_a_document_takes_a_multiple_of_its_size(form: str, text: str) -> None:
    read(form, text[:6] + "\n" if form == "html" else "---\na: 1\n---\n")  # what is imported stays
    tracemalloc.start()
    try:
        read(form, text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < BYTES_PER_CHARACTER_MAX * len(text), f"{peak / len(text):.0f} bytes a character"


def test_runs_are_read_once() -> None:
    for form, text in [
        ("markdown", "a|b\n" + " " * SIZE + "x"), ("markdown", "a|b\n-" + " " * SIZE + "x"),
        ("markdown", "a|b\n|" + "-" * SIZE + "x"), ("markdown", "a" + "_" * SIZE + "b"),
        ("markdown", "a" + "\u200b" * SIZE + "b"), ("html", "<p>a" + "\u200b" * SIZE + "b"),
        ("email", "From: " + repeated('\\"') + "\n\nx"), ("email", "From: " + repeated('\\"') + "\\\n b\n\nx"),
    ]:  # fmt: skip
        assert read(form, text)


def test_expensive_emails_are_refused() -> None:
    for text in [
        "Content-Type: text/plain" + ";" * SIZE + "\n\nx",
        'Content-Type: text/plain; a="' + ";" * SIZE + '"\n\nx',
        "Content-Transfer-Encoding: " + "a" * SIZE + "\n\nx",
        "Subject: " + repeated("=?utf-8?q?a?= ") + "\n\nx",
        "Subject: =?punycode?b?" + b64encode(b"a" * 400 + b"-" + b"b" * 400).decode() + "?=\n\nx",
        *(
            f"Content-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: base64\n\n"
            + b64encode(b"a" * SIZE + b"-" + b"b" * SIZE).decode()
            for charset in ("punycode", "idna", "unicode_escape", "PunyCode")
        ),
        "".join(f"Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n" for n in range(40))
        + "\n"
        + "x\n" * 100
        + "".join(f"\n--b{n}--\n" for n in reversed(range(40))),
    ]:
        with pytest.raises(InvalidInput):
            read("email", text)


LABELLED = [
    ("json", '{"' + "k" * 64 + '":[' + '"",' * (SIZE // 3) + '""]}'),
    ("csv", ",".join("column " * 8 + chr(65 + n) for n in range(26)) + "\n" + (25 * "," + "\n") * (SIZE // 26)),
    ("html", "<table><tr><th>" + "a" * 64 + "<tr>" + "<td><tr>" * (SIZE // 4)),
    ("markdown", "|" + "a" * 64 + "|\n|-|\n" + "||\n" * (SIZE // 3)),
]


@pytest.mark.parametrize(("form", "text"), cells(LABELLED, fast=2))
def test_labels_of_empty_values_count(form: str, text: str) -> None:
    with pytest.raises(InvalidInput, match="with their labels"):
        read(form, text)


def test_cells_of_a_row_count_even_if_they_are_empty() -> None:
    with pytest.raises(InvalidInput, match="A row of CSV has at most"):
        read("csv", "a\n" + "," * SIZE)


def test_rules_of_json_take_no_memory_for_each_path() -> None:
    paths = tuple((f"a.{'*.' * (29 - number % 15)}x{number}", Action()) for number in range(100))
    nested = "0"
    for level in range(13):
        nested = f'{{"a":{nested},"b":{nested}}}' if level < 12 else nested
    read("json", nested, FormatOptions(json=JsonChoices(rules=paths)))


DOCUMENTS = [
    (form, "Content-Type: multipart/mixed; boundary=b\nTo: " if form == "email" else "", "") for form in FORMATS
]
FRONT_MATTER = [
    ("markdown", f"{mark}\n{head}", f"{end}\n{mark}\n")
    for mark, head, end in (("---", "", ""), ("---", 'a: "', '"'), ("+++", "a = ", ""), ("+++", 'a = "', '"'))
]
PARTS = [
    *((part, DOCUMENTS) for part in ("<", "[](", "{", "</a ", "<!--", "&#", "`", "*_", "| ", '"', "\\", "=?", "--b\n")),
    *((part, DOCUMENTS) for part in ("a=", "@a", "<p a=' ")),
    *((part, FRONT_MATTER) for part in ("[", "{", "a: ", "- ", "? ", '"', "' ", "a.", "&a ", "\\\n", "=", '"""', "# ")),
]


@pytest.mark.parametrize(("part", "frames"), cells([("&a ", FRONT_MATTER), *PARTS], fast=3))
def test_a_part_that_is_repeated_is_read_or_refused(part: str, frames: list[tuple[str, str, str]]) -> None:
    for form, head, end in frames:
        with suppress(InvalidInput):
            parse(form, head + part * (SIZE // 2 // len(part)) + end, FormatOptions(), FormatLimits())
