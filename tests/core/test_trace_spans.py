"""Spans: what they hold, and what is recorded."""

import asyncio
from collections.abc import Iterator

import pytest

from core import spans
from core.errors import QueueFull
from core.spans import NOTHING, SpanRef, TraceSpan


class Kept:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.spans: list[TraceSpan] = []
        self.left_out = 0

    def ended(self, span: TraceSpan) -> None:
        self.spans.append(span)

    def limited(self) -> None:
        self.left_out += 1


@pytest.fixture
def kept() -> Iterator[Kept]:
    sink = Kept()
    spans.install(sink, sample_ratio=1.0, per_trace_max=4)
    yield sink
    spans.uninstall(sink)


def test_without_a_sink_nothing_is_recorded() -> None:
    with spans.root("request") as request, spans.span("step") as step:
        assert (request, step, spans.current()) == (NOTHING, NOTHING, NOTHING)
        step.set("gateway.role", "embed")
        step.fail(ValueError("text"))


def test_steps_are_children_of_the_current_span(kept: Kept) -> None:
    with spans.root("request") as request:
        with spans.span("outer") as outer, spans.span("inner") as inner:
            pass
        assert spans.current() is request
    assert [span.name for span in kept.spans] == ["inner", "outer", "request"]
    assert (inner.parent_id, outer.parent_id) == (outer.ref.span_id, request.ref.span_id)
    assert request.parent_id is None
    assert {span.ref.trace_id for span in kept.spans} == {request.ref.trace_id}
    assert all(span.start_ns <= span.end_ns for span in kept.spans)


def test_tasks_have_the_span_that_they_were_made_under(kept: Kept) -> None:
    async def step(name: str) -> None:
        with spans.span(name):
            await asyncio.sleep(0)

    async def request(name: str) -> None:
        with spans.root(name):
            await asyncio.gather(step(f"{name} 1"), step(f"{name} 2"))

    async def both() -> None:
        await asyncio.gather(request("a"), request("b"))

    asyncio.run(both())
    roots = {span.ref.span_id: span.name for span in kept.spans if span.parent_id is None}
    assert sorted(roots.values()) == ["a", "b"]
    for span in kept.spans:
        if span.parent_id is not None:
            assert span.name.startswith(roots[span.parent_id])


def test_an_error_is_its_code_and_never_its_message(kept: Kept) -> None:
    for error, code in ((QueueFull("zqcanary"), "queue-full"), (ValueError("zqcanary"), "internal")):
        with pytest.raises(type(error)), spans.root("request"):
            raise error
        assert kept.spans[-1].code == code
        assert kept.spans[-1].attributes == {"error.type": code}


def test_other_attributes_than_those_of_the_table_are_left_out(kept: Kept) -> None:
    with spans.root("request") as request:
        request.set("gateway.text", "zqcanary")  # type: ignore[arg-type]
        request.set("gateway.tenant", None)
        request.set("gateway.role", "embed")
    assert request.attributes == {"gateway.role": "embed"}


def test_a_trace_has_a_bounded_number_of_spans(kept: Kept) -> None:
    with spans.root("request") as request:
        made = [spans.span("step") for _ in range(5)]
        for step in made:
            step.end()
    assert [bool(step) for step in made] == [True] * 3 + [False] * 2
    assert (len(kept.spans), kept.left_out) == (4, 2)
    with spans.root("next"):
        assert spans.span("step") is not NOTHING
    assert request.ref != SpanRef(0, 0)


def test_a_batch_is_recorded_if_one_of_its_requests_is(kept: Kept) -> None:
    recorded = spans.root("request")
    assert spans.root("batch", because_of=[NOTHING]) is NOTHING
    batch = spans.root("batch", because_of=[NOTHING, recorded])
    assert batch.links == [recorded.ref]
    assert batch.ref.trace_id != recorded.ref.trace_id


def test_a_share_of_the_traces_is_recorded() -> None:
    for ratio, recorded in [(0.0, 0), (1.0, 50)]:
        sink = Kept()
        spans.install(sink, sample_ratio=ratio, per_trace_max=4)
        try:
            for _ in range(50):
                with spans.root("request"), spans.span("step"):
                    pass
        finally:
            spans.uninstall(sink)
        assert len(sink.spans) == 2 * recorded


TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_a_traceparent_is_read_and_written() -> None:
    ref = spans.parsed(f"00-{TRACE}-{SPAN}-01")
    assert ref == SpanRef(int(TRACE, 16), int(SPAN, 16))
    assert ref.traceparent == f"00-{TRACE}-{SPAN}-01"


def test_other_headers_are_no_span() -> None:
    for header in [
        "", "zqcanary", f"00-{TRACE}-{SPAN}-00", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01",
        f"01-{TRACE}",
    ]:  # fmt: skip
        assert spans.parsed(header) is None
