"""The times of cron schedules, by the calendar and in time zones."""

from __future__ import annotations

import datetime as dt

import pytest

from ctrlhost.sandbox.apimachinery import cron, schedules


def times(text: str, since: str, count: int, zone: str = "") -> list[str]:
    """Return the next times as local text."""
    place, schedule = schedules.load_zone(zone), cron.parse(text)
    moment, found = dt.datetime.fromisoformat(since).replace(tzinfo=place).timestamp(), []
    for _ in range(count):
        following = schedules.after(schedule, moment, place)
        assert following is not None
        assert following > moment
        moment = following
        found.append(dt.datetime.fromtimestamp(moment, place).strftime("%Y-%m-%d %H:%M %z"))
    return found


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.parametrize(
    ("text", "since", "expected"),
    [
        ("* * * * *", "2026-01-01T10:00:00", ["2026-01-01 10:01", "2026-01-01 10:02"]),
        ("* * * * *", "2026-01-01T09:59:59.5", ["2026-01-01 10:00"]),
        ("*/15 8-9 * * *", "2026-01-01T09:30:00", ["2026-01-01 09:45", "2026-01-02 08:00"]),
        ("0 0 29 2 *", "2026-01-01T00:00:00", ["2028-02-29 00:00"]),
        ("30 12 * jan,JUL mon-wed", "2026-01-28T13:00:00", ["2026-07-01 12:30", "2026-07-06 12:30"]),
        # Two restricted fields of days are alternatives, unless one of them is a star.
        ("0 0 13 * fri", "2026-01-10T00:00:00", ["2026-01-13 00:00", "2026-01-16 00:00"]),
        ("0 0 */1 * fri", "2026-01-10T00:00:00", ["2026-01-16 00:00"]),
        ("@hourly", "2026-01-01T10:00:00", ["2026-01-01 11:00"]),
        ("@weekly", "2026-01-01T10:00:00", ["2026-01-04 00:00"]),
        ("@every 90s", "2026-01-01T10:00:00", ["2026-01-01 10:01", "2026-01-01 10:03"]),
    ],
)
def test_the_next_times_of_a_schedule(text: str, since: str, expected: list[str]) -> None:
    assert times(text, since, len(expected)) == [f"{one} +0000" for one in expected]


@pytest.mark.behaviour("findings/FS2")
def test_a_schedule_without_any_day_has_no_time() -> None:
    assert schedules.after(cron.parse("0 0 31 2 *"), 0.0, dt.UTC) is None


@pytest.mark.behaviour("findings/FS2")
def test_schedules_follow_the_clocks_of_their_zone() -> None:
    # On 2026-03-29 the hour after 02:00 is left out; on 2026-10-25 the hour after 02:00 comes twice.
    spring = times("30 2 * * *", "2026-03-28T00:00:00", 2, "Europe/Berlin")
    assert spring == ["2026-03-28 02:30 +0100", "2026-03-30 02:30 +0200"]
    autumn = times("30 2 * * *", "2026-10-25T00:00:00", 3, "Europe/Berlin")
    assert autumn == ["2026-10-25 02:30 +0200", "2026-10-25 02:30 +0100", "2026-10-26 02:30 +0100"]
    with pytest.raises(ValueError, match="unknown time zone Nowhere"):
        schedules.load_zone("Nowhere")
