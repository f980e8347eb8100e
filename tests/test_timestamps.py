"""Times for people are in the time zone of the machine, those in files are in UTC."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from logist.timestamps import (
    find_local_day,
    find_next_time,
    find_period_end,
    format_age,
    format_duration,
    format_local,
    format_utc,
    has_timezone,
    parse_duration,
)


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


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


DAY, MONTH = 10, 7


@pytest.mark.parametrize(
    ("now", "length", "timezone", "end"),
    [
        ("2026-11-26T22:59:59+00:00", DAY, "Europe/Berlin", "2026-11-26T23:00:00+00:00"),
        ("2026-11-26T23:00:00+00:00", DAY, "Europe/Berlin", "2026-11-27T23:00:00+00:00"),
        ("2026-03-28T23:00:00+00:00", DAY, "Europe/Berlin", "2026-03-29T22:00:00+00:00"),  # 23 hours
        ("2026-10-24T22:00:00+00:00", DAY, "Europe/Berlin", "2026-10-25T23:00:00+00:00"),  # 25 hours
        (
            "2026-10-25T00:30:00+00:00",
            DAY,
            "Europe/Berlin",
            "2026-10-25T23:00:00+00:00",
        ),  # 2:30, the first time
        ("2018-11-03T12:00:00+00:00", DAY, "America/Sao_Paulo", "2018-11-04T03:00:00+00:00"),  # no midnight
        ("2026-04-04T12:00:00+00:00", DAY, "Australia/Lord_Howe", "2026-04-04T13:00:00+00:00"),
        ("2026-11-26T00:00:00+00:00", MONTH, "Asia/Kathmandu", "2026-11-30T18:15:00+00:00"),
        ("2026-12-31T23:59:59+00:00", MONTH, "UTC", "2027-01-01T00:00:00+00:00"),
    ],
)
def test_a_day_or_month_ends_at_midnight_of_its_time_zone(
    now: str, length: int, timezone: str, end: str
) -> None:
    found = find_period_end(at(now), length, timezone)
    assert found == at(end)
    assert find_local_day(found - 1, timezone)[:length] == find_local_day(at(now), timezone)[:length]


@pytest.mark.usefixtures("_berlin")
def test_without_a_time_zone_it_is_that_of_the_machine() -> None:
    assert find_local_day(at("2026-03-28T22:59:00+00:00")) == "2026-03-28"
    assert find_period_end(at("2026-03-28T23:00:00+00:00"), DAY) == at("2026-03-29T22:00:00+00:00")


def test_unknown_time_zones() -> None:
    assert has_timezone("Europe/Berlin")
    assert not any(map(has_timezone, ("Mars/One", "", "../etc/passwd", "/etc/passwd", "Europe")))


@pytest.mark.usefixtures("_berlin")
@pytest.mark.parametrize(
    ("now", "text", "end"),
    [
        ("2026-07-01T23:00:00+02:00", "07:00", "2026-07-02T07:00:00+02:00"),
        ("2026-07-01T06:59:59+02:00", "7:00", "2026-07-01T07:00:00+02:00"),
        ("2026-07-01T07:00:00+02:00", "07:00", "2026-07-02T07:00:00+02:00"),
        ("2026-12-31T23:30:00+01:00", "00:00", "2027-01-01T00:00:00+01:00"),
        # Clocks are put forward from 2:00 to 3:00.
        ("2026-03-28T23:00:00+01:00", "07:00", "2026-03-29T07:00:00+02:00"),
        ("2026-03-29T01:00:00+01:00", "02:30", "2026-03-29T03:00:00+02:00"),
        ("2026-03-29T01:00:00+01:00", "03:00", "2026-03-29T03:00:00+02:00"),
        ("2026-03-29T03:00:00+02:00", "02:30", "2026-03-30T02:30:00+02:00"),
        # Clocks are put back from 3:00 to 2:00.
        ("2026-10-24T23:00:00+02:00", "07:00", "2026-10-25T07:00:00+01:00"),
        ("2026-10-25T01:00:00+02:00", "02:30", "2026-10-25T02:30:00+02:00"),
        ("2026-10-25T02:40:00+02:00", "02:30", "2026-10-25T02:30:00+01:00"),
        ("2026-10-25T02:40:00+02:00", "02:00", "2026-10-25T02:00:00+01:00"),
        ("2026-10-25T02:40:00+01:00", "02:30", "2026-10-26T02:30:00+01:00"),
    ],
)
def test_the_next_time_of_the_day(now: str, text: str, end: str) -> None:
    assert find_next_time(at(now), text) == at(end)


@pytest.mark.parametrize(
    "text", ["", "7", "07:60", "24:00", "-1:00", "07:00:00", "7am", "07.00", "007:00", "07:0"]
)
def test_what_is_no_time_of_the_day(text: str) -> None:
    assert find_next_time(0.0, text) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(
            ("8h", 28_800),
            ("90m", 5_400),
            ("1h30m", 5_400),
            ("45s", 45),
            ("2d", 172_800),
            (" 1h5s ", 3_605),
            ("1w", 604_800),
        ),
        *(("", None), ("0h", 0), ("8", None), ("h", None), ("30m1h", None), ("1.5h", None), ("-1h", None)),
    ],
)
def test_a_duration(text: str, seconds: int | None) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0s"), (12.9, "12s"), (250, "4m10s"), (3600, "1h00m"), (100_000, "27h46m")]
)
def test_how_a_duration_is_shown(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
