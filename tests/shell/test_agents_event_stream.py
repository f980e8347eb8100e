"""Streams of events, cut anywhere."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logist.agents.clients.event_stream import EventSplitter, StreamEvent

MOST = 1 << 20
LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r"])
TEXTS = st.text(alphabet=st.sampled_from("ab: é€😀\ufeff\u2028{}"), max_size=6)
LINES = st.builds(
    lambda name, text: f"{name}{text}", st.sampled_from(["data:", "data: ", "event: ", ":", ""]), TEXTS
)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Return a stream of any lines; most with the same line end, as servers do it."""
    end = draw(LINE_ENDS)
    lines = draw(st.lists(st.one_of(LINES, st.just("")), max_size=12))
    ends = [draw(LINE_ENDS) if draw(st.integers(0, 9)) == 0 else end for _ in lines]
    return "".join(line + end for line, end in zip(lines, ends, strict=True)).encode() + draw(
        st.sampled_from([b"", b"data: x", b"\xff\xfe"])
    )


def split(pieces: Iterable[bytes], most: int = MOST) -> list[StreamEvent]:
    splitter = EventSplitter(most)
    events = [event for piece in pieces for event in splitter.feed(piece)]
    return [*events, *splitter.finish()]


def list_data(events: Iterable[StreamEvent]) -> list[str]:
    return [event.data for event in events if event.data]


@given(streams(), st.data())
def test_any_cut_of_a_stream_gives_the_same_events(whole: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    events = split(pieces)
    assert list_data(events) == list_data(split([whole]))
    assert b"".join(event.raw for event in events) == whole


@given(streams())
def test_a_stream_that_comes_byte_by_byte_gives_the_same_events(whole: bytes) -> None:
    events = split(bytes([byte]) for byte in whole)
    assert list_data(events) == list_data(split([whole]))
    assert b"".join(event.raw for event in events) == whole


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_an_event_has_its_bytes_and_its_data(end: str) -> None:
    stream = (
        f": hi{end}{end}event: x{end}data: one{end}data:two{end}data:  three{end}{end}data: [DONE]{end}{end}"
    )
    events = split([stream.encode()])
    assert [event.data for event in events] == ["", "one\ntwo\n three", "[DONE]"]
    assert events[2].raw == f"data: [DONE]{end}{end}".encode()


def test_an_event_is_complete_with_its_empty_line() -> None:
    splitter = EventSplitter(MOST)
    assert list(splitter.feed(b"data: a\r\n\r")) == [StreamEvent(b"data: a\r\n\r", "a")]
    assert list(splitter.feed(b"\ndata: b\n")) == []
    assert list(splitter.feed(b"\n")) == [StreamEvent(b"\ndata: b\n\n", "b")]
    assert list(splitter.finish()) == []


def test_what_is_no_text_is_replaced() -> None:
    assert list_data(split([b"data: \xff\n\n"])) == ["�"]


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    assert list_data(split([b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n"])) == ["a"]


@pytest.mark.parametrize(
    "stream", [b"data: " + b"x" * 2000, b"data: " + b"x" * 2000 + b"\n\n", b"data:\n" * 100 + b"\n"]
)
def test_a_long_event_is_refused(stream: bytes) -> None:
    with pytest.raises(OverflowError, match="1,000 bytes"):
        split([stream], 1000)
    with pytest.raises(OverflowError):
        split((bytes([byte]) for byte in stream), 1000)
    assert len(split([b"data: " + b"x" * 900 + b"\n\n"] * 5, 1000)) == 5
