"""Events of a stream: the same for every split of its bytes."""

import pytest

from core.errors import UpstreamAnswerInvalid
from service.proxy.client import EventParser, StreamEvent

STREAM = (
    "\ufeffdata: Jürgen 🙂\n\n"
    'event: message_start\rdata: {"a":\rdata:  1}\r\r'
    ": a comment\r\nid: 7\r\nretry: 10\r\nevent: ping\r\ndata\r\n\r\n"
    "event: dropped\n\n"
    "other: x\n: ping\n\n\r\n"
    "data:no blank: kept\r\ndata:\r\ndata: \u2028 same line\r\n\n"
    "data: [DONE]\n\n"
).encode()
EVENTS = [
    StreamEvent("", "Jürgen 🙂"), StreamEvent("message_start", '{"a":\n 1}'), StreamEvent("ping", ""),
    StreamEvent("", "no blank: kept\n\n\u2028 same line"), StreamEvent("", "[DONE]"),
]  # fmt: skip


def events(*parts: bytes, event_bytes_max: int = 1024) -> list[StreamEvent]:
    parser = EventParser(event_bytes_max=event_bytes_max)
    found = [event for part in parts for event in parser.feed(part)]
    return found + parser.end()


def test_fields_lines_and_comments_are_read_as_in_the_standard_whole_and_split_in_two() -> None:
    assert events(STREAM) == EVENTS
    for at in range(len(STREAM) + 1):
        assert events(STREAM[:at], STREAM[at:]) == EVENTS, at


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_no_split_in_many_changes_the_events(size: int) -> None:
    parts = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert events(*parts) == EVENTS
    assert events(*(piece for part in parts for piece in (b"", part, b""))) == EVENTS


def test_an_event_leaves_as_soon_as_its_blank_line_is_there() -> None:
    parser = EventParser(event_bytes_max=1024)
    assert parser.feed(b"data: x\r\n\r") == [StreamEvent("", "x")]
    assert parser.feed(b"\ndata: y\n") == []
    assert parser.feed(b"\n") == [StreamEvent("", "y")]


def test_a_stream_may_lack_its_last_blank_line_and_no_more() -> None:
    assert events(b"data: [DONE]\n") == [StreamEvent("", "[DONE]")]
    with pytest.raises(UpstreamAnswerInvalid) as caught:
        events(b'data: {"cut')
    assert caught.value.reason == "incomplete"


@pytest.mark.parametrize(
    "stream",
    [b"data: " + b"x" * 200, b"data: x\n" * 40, b": " + b"x" * 200, b"event: " + b"x" * 200 + b"\n", b"data\n" * 200],
)
def test_a_long_line_or_event_ends_the_stream_before_it_is_read_whole(stream: bytes) -> None:
    for size in (1, 10, len(stream)):
        with pytest.raises(UpstreamAnswerInvalid) as caught:
            events(*(stream[at : at + size] for at in range(0, len(stream), size)), event_bytes_max=128)
        assert caught.value.reason == "event-too-large"


def test_many_small_events_and_comments_have_no_limit_together() -> None:
    assert events(b": ping\n\ndata: x\n\n" * 100, event_bytes_max=16) == [StreamEvent("", "x")] * 100


def test_other_encodings_than_utf_8_are_refused() -> None:
    with pytest.raises(UpstreamAnswerInvalid) as caught:
        events("data: Jürgen\n\n".encode("latin-1"))
    assert caught.value.reason == "not-utf-8"
