"""The times of cron schedules, by the calendar and in time zones."""

from __future__ import annotations

import datetime as dt

import pytest
from ctrlhost_sandbox.apimachinery import cron, schedules


class CountingZone(dt.tzinfo):
    """UTC that counts the conversions."""

    conversions = 0

    def utcoffset(self, _: dt.datetime | None) -> dt.timedelta:
        return dt.timedelta()

    def dst(self, _: dt.datetime | None) -> dt.timedelta:
        return dt.timedelta()

    def fromutc(self, moment: dt.datetime) -> dt.datetime:
        self.conversions += 1
        return super().fromutc(moment)


def times(text: str, since: str, count: int, zone: str = "") -> list[str]:
    """Return the next times as local text."""
    place, schedule = schedules.load_zone(zone), cron.parse(text)
    moment, moments = dt.datetime.fromisoformat(since).replace(tzinfo=place).timestamp(), []
    for _ in range(count):
        following = schedules.after(schedule, moment, place)
        assert following is not None
        assert following > moment
        moment = following
        moments.append(dt.datetime.fromtimestamp(moment, place).strftime("%Y-%m-%d %H:%M %z"))
    return moments


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2b")
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
    assert times(text, since, len(expected)) == [f"{moment} +0000" for moment in expected]


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2b")
def test_a_schedule_without_any_day_has_no_time() -> None:
    assert schedules.after(cron.parse("0 0 31 2 *"), 0.0, dt.UTC) is None


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2b")
def test_schedules_follow_the_clocks_of_their_zone() -> None:
    # On 2026-03-29 the hour after 02:00 is left out; on 2026-10-25 the hour after 02:00 comes twice.
    spring = times("30 2 * * *", "2026-03-28T00:00:00", 2, "Europe/Berlin")
    assert spring == ["2026-03-28 02:30 +0100", "2026-03-30 02:30 +0200"]
    autumn = times("30 2 * * *", "2026-10-25T00:00:00", 3, "Europe/Berlin")
    assert autumn == ["2026-10-25 02:30 +0200", "2026-10-25 02:30 +0100", "2026-10-26 02:30 +0100"]
    with pytest.raises(ValueError, match="unknown time zone Nowhere"):
        schedules.load_zone("Nowhere")


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2b")
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("@every 1ns", 1),
        ("@every -1h", 1),
        ("@every .5h", 1800),
        ("@every 1h2.5m3s", 3753),
        ("@every 2562047h", 2562047 * 3600),
    ],
)
def test_a_duration_is_read_as_in_go(text: str, seconds: int) -> None:
    assert cron.parse(text).every == seconds


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2b")
@pytest.mark.parametrize("duration", ["1", "h", ".h", "1h 1m", "1d", "2562048h", f"{'9' * 400}h"])
def test_a_duration_that_go_cannot_hold_is_refused(duration: str) -> None:
    with pytest.raises(ValueError, match=f'time: invalid duration "{duration}"$'):
        cron.parse(f"@every {duration}")


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2b")
@pytest.mark.parametrize("text", [", * * * *", "* , * * *", "* * , * ,", "* * * , *"])
def test_a_schedule_with_an_empty_field_has_no_time(text: str) -> None:
    # The server searches in its own loop: it may look at the days of the years ahead, not at their minutes.
    zone = CountingZone()
    assert schedules.after(cron.parse(text), 0.0, zone) is None
    assert zone.conversions < 3000


@pytest.mark.behaviour("findings/FS2")
@pytest.mark.behaviour("findings/FS2b")
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_the_calendar_has_an_end(zone: str) -> None:
    place, schedule = schedules.load_zone(zone), cron.parse("0 0 * * *")
    for year in (1, 9999):
        moment = dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp()
        following = schedules.after(schedule, moment, place)
        assert (following is None) is (year == 9999)
    assert schedules.after(cron.parse("0 0 31 2 *"), dt.datetime(9997, 1, 1, tzinfo=dt.UTC).timestamp(), place) is None
