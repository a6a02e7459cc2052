"""Recognition, and that it fails closed."""

import logging
import socket

import pytest
import regex
from table_kit import texts
from tiers import cells

from core.errors import InvalidInput, RecogniserFailed
from core.text import mask_entity, recogniser
from core.text.policy import MaskPolicy
from core.text.recogniser import Pattern, Recogniser, pattern_scan
from core.text.sanitize import sanitize

PLANTED_BY_TYPE = {
    "EMAIL_ADDRESS": """
jo@example.org || jo.van+news@mail.example.co.uk || jo@host.internal || jörg@bücher.example
o'neil_99@sub-domain.example.com || jo [at] example [dot] com || jo at example dot com
""",
    "PHONE_NUMBER": """
(202) 555-0143 || 202-555-0143 || 202.555.0143 || +1 202 555 0143 || +12025550143 || +44 20 7946 0958 || 020 7946 0958
+49 (0)30 901820 || 0049 30 901820 || 01 99 00 12 34 || +91 98765 43210 || +81-3-1234-5678 || 202-555-0143 ext. 22
""",
    "CREDIT_CARD": """
4111111111111111 || 4111 1111 1111 1111 || 4111-1111-1111-1111 || 4111.1111.1111.1111 || 3782 822463 10005
2223003122003222
""",
    "IBAN_CODE": "DE89370400440532013000 || DE89 3704 0044 0532 0130 00 || gb82 west 1234 5698 7654 32",
    "US_SSN": "123-45-6789 || 536 22 8145",
    "IP_ADDRESS": "192.168.10.4 || 2001:db8:85a3::8a2e:370:7334",
    "MAC_ADDRESS": "00:1B:44:11:3A:B7",
    "URL": "https://example.org/a?b=1 || www.example.org || intranet.example.com",
    "CRYPTO": "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
    "UK_NINO": "AB 12 34 56 C",
    "IN_PAN": "ABCPE1234F",
}
PLANTED = [(entity, value) for entity, block in PLANTED_BY_TYPE.items() for value in texts(block)]


def run(text: str, **options):
    return sanitize(text, MaskPolicy(**options), "class_marker")


def test_planted_values_are_removed():
    for fill in ["marker", "class_marker", "surrogate"]:
        for entity, value in PLANTED:
            for frame in ["It was {} then, they said.", "({})", "one,\n{}\nand more"]:
                result = sanitize(frame.format(value), MaskPolicy(), fill)
                assert value not in result.text
                assert [span.type for span in result.spans] == [entity]
                rest = frame.split("{}")
                assert result.text.startswith(rest[0])
                assert result.text.endswith(rest[1])


def test_ordinary_text_is_left_alone():
    for text in [
        "From 1998-2004 (call it 1982-1984, or so) (2/25/2007, it rained on 2015-12-22 and 12/22/2015 at 10:45.",
        "It cost $1234567.89, or 10.000.000 in all, 3.14159265 each, 100 000 000 people.",
        "This film is great.It was long... and/or not. Mr.T came; e.g. this, i.e. that, the U.S.A. too.",
        "Chapter 12, verse 3; version 2.10.3 has 12,345,678 users.",
        "@handle wrote a@b and x @ y",
    ]:
        result = run(text)
        assert result.text == text
        assert list(result.spans) == []


def test_context_lets_a_weak_number_pass_and_its_copy_too():
    assert list(run("The value 780 6326 was high.").spans) == []
    both = run(
        "Phone: 780 6326. " + "Nothing to say here, and nothing there, for many words in a row. " * 3 + "So 780 6326."
    )
    assert "780 6326" not in both.text
    assert len(both.spans) == 2
    assert run("Card number 4111 1111 1111 1112 was typed wrong.").spans[0].type == "CREDIT_CARD"


def test_two_numbers_in_a_row_and_a_trailing_code_are_covered():
    text = run("Dial 202-555-0143 202-555-0199 now, card 4111 1111 1111 1111 123 too.").text
    assert not {"0143", "0199", "1111"} & set(text.replace("-", " ").split())


def test_only_requested_entities_are_masked():
    result = run("jo@example.org or 192.168.10.4", entities=("IP_ADDRESS",))
    assert result.text == "jo@example.org or [IP_ADDRESS]"


def test_a_higher_threshold_masks_less():
    assert list(run("020 7946 0958", thresholds=(("PHONE_NUMBER", 0.99),), entities=("PHONE_NUMBER",)).spans) == []


# ------------------------------------------------------------------ fail closed

SECRET = "jo@example.org"


def broken(monkeypatch, scan, entity="URL"):
    table = dict(mask_entity.recognisers())
    table[entity] = (Recogniser(entity, scan),)
    monkeypatch.setattr(mask_entity, "recognisers", lambda: table)


def test_a_recogniser_that_raises_is_an_error(monkeypatch):
    def scan(text):
        raise RuntimeError(text)
        yield

    broken(monkeypatch, scan)
    with pytest.raises(RecogniserFailed) as caught:
        run(SECRET)
    assert caught.value.entity == "URL"
    assert caught.value.__context__ is None
    assert SECRET not in repr(caught.value) + str(caught.value) + str(caught.value.detail)


def test_a_pattern_that_runs_out_of_time_is_an_error(monkeypatch):
    monkeypatch.setattr(recogniser, "REGEX_TIMEOUT_S", 0.05)
    broken(monkeypatch, pattern_scan([Pattern(regex.compile(r"(?:a|aa)+$"), 0.9)]))
    with pytest.raises(RecogniserFailed):
        run("a" * 60 + "b")


def test_presidio_patterns_run_under_the_same_clock(monkeypatch):
    monkeypatch.setattr(recogniser, "REGEX_TIMEOUT_S", 1e-6)
    with pytest.raises(RecogniserFailed):
        run("192.168.1." * 20_000, entities=("IP_ADDRESS",))


def test_a_requested_entity_without_a_recogniser_is_an_error(monkeypatch):
    table = {name: row for name, row in mask_entity.recognisers().items() if name != "URL"}
    monkeypatch.setattr(mask_entity, "recognisers", lambda: table)
    with pytest.raises(InvalidInput):
        run("nothing here")


def test_nothing_is_logged_and_no_network_is_used(monkeypatch, caplog):
    def refuse(*args, **kwargs):
        raise AssertionError("network")

    mask_entity.recognisers.cache_clear()
    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with caplog.at_level(logging.DEBUG):
        for _, value in PLANTED:
            run(f"iban GB00 {value}")
    assert not caplog.records


@pytest.mark.parametrize("sentences", cells([2_100, 21_000]))
def test_a_long_text_and_its_last_value(sentences):
    text = "All was well in the old town, and nobody wrote. " * sentences + "Write to jo@example.org."
    result = run(text)
    assert result.text.endswith("Write to [EMAIL_ADDRESS].")
    assert len(result.spans) == 1
