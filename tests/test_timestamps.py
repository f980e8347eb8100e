"""Times for people are in the time zone of the machine, those in files are in UTC."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from logist.timestamps import format_age, format_local, format_utc


@pytest.fixture
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_berlin")
def test_local_time_follows_daylight_saving() -> None:
    assert format_local("2026-07-01T22:30:05Z") == "2026-07-02 00:30"
    assert format_local("2026-12-01T22:30:05Z", with_seconds=True) == "2026-12-01 23:30:05"
    assert format_local(0) == "1970-01-01 01:00"
    assert format_utc(0) == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize("text", ["", "yesterday", "999999-01-01"])
def test_what_is_no_time_stays(text: str) -> None:
    assert format_local(text) == text


def test_a_time_that_no_calendar_has_stays() -> None:
    assert format_local(1e300) == "1e+300"


@pytest.mark.parametrize(
    ("seconds", "age"),
    [(-5, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (86_399, "23h"), (864_000, "10d")],
)
def test_age(seconds: float, age: str) -> None:
    assert format_age(seconds) == age
