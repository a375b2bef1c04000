"""The time that a server asks to wait before a retry."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from ctrlhost.testing import ManualClock
from ctrlhost.transport.interface import Response
from ctrlhost.transport.responses import error_from_response
from tests.support.controllers import WEB, Bench, Script, idle
from tests.support.waiting import eventually


def wait_after(header: str, body: bytes = b"") -> float | None:
    return error_from_response(Response(429, {"retry-after": header}, body), "GET /").retry_after


def date(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.behaviour("supervision/BU14")
@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0),
        ("7", 7),
        ("300", 300),
        ("301", 300),
        ("1000000000", 300),
        ("9" * 5000, 300),
        ("-3", None),
        ("abc", None),
        ("", None),
        ("1.5", None),
        ("1e3", None),
        ("٣", None),
    ],
)
def test_seconds_are_honoured_up_to_five_minutes(header: str, seconds: float | None) -> None:
    assert wait_after(header) == seconds


@pytest.mark.behaviour("supervision/BU14")
def test_a_date_is_honoured_up_to_five_minutes() -> None:
    near = wait_after(date(100))
    assert near is not None
    assert 95 < near <= 100
    assert wait_after(date(3600)) == 300
    assert wait_after(date(-5)) is None
    assert wait_after("Wed, 21 Oct 2015 07:28:00 GMT") is None
    assert wait_after("Wed, 99 Foo 2015 07:28:00 GMT") is None


@pytest.mark.behaviour("supervision/BU14")
def test_the_details_of_the_status_have_the_same_limit() -> None:
    status = b'{"kind":"Status","details":{"retryAfterSeconds":%d}}'
    assert wait_after("", status % 1_000_000_000) == 300
    assert wait_after("", status % 5) == 5
    assert wait_after("", status % -5) is None


@pytest.fixture
def bench(manual_clock: ManualClock):
    bench = Bench(manual_clock)
    yield bench
    bench.close()


@pytest.mark.behaviour("supervision/BU14")
@pytest.mark.parametrize(
    ("header", "delay"), [("1000000000", 300), ("-3", 0.005), ("abc", 0.005), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.005)]
)
def test_the_reconcile_is_retried_after_that_time_or_its_back_off(
    bench: Bench, manual_clock: ManualClock, header: str, delay: float
) -> None:
    error = error_from_response(Response(429, {"retry-after": header}, b""), "GET /")
    controller = bench.controller(Script(error, None))
    controller.queue.add(WEB)
    eventually(lambda: bench.results() == {"error": 1} and idle(controller))
    (waiting,) = controller.queue.snapshot().delayed
    assert waiting.due_in == delay
    manual_clock.advance(delay)
    eventually(lambda: bench.results() == {"error": 1, "success": 1})
