"""What callbacks of reflectors raise: it is logged, and every reflector goes on."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import pytest

from ctrlhost.clock import SystemClock
from ctrlhost.reflector.driver import Driver
from ctrlhost.reflector.steps import BackOff, Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.reflector.steps import Steps

LIMIT = 30.0


def driving(steps: Steps[None]) -> Driver:
    return Driver(steps, SystemClock(), "reflector Pod", native=True)


def calling(function: Callable[[], None], after: threading.Event) -> Steps[None]:
    yield Call(function)
    yield BackOff(0)
    after.set()


@pytest.mark.parametrize("error", [KeyError("user"), StopIteration(), SystemExit(1), KeyboardInterrupt()])
def test_a_reflector_goes_on_after_a_callback_that_raises(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)

    def fail() -> None:
        raise error

    after = threading.Event()
    driver = driving(calling(fail, after))
    driver.start()
    assert after.wait(LIMIT)
    assert driver.join(LIMIT)
    assert [record.message for record in caplog.records] == ["a callback of a reflector failed"]


def test_the_loop_goes_on_after_a_reflector_that_ended_it(caplog: pytest.LogCaptureFixture) -> None:
    def ending() -> Steps[None]:
        yield BackOff(0)
        raise SystemExit(1)

    driver = driving(ending())
    driver.start()
    assert driver.join(LIMIT)
    after = threading.Event()
    other = driving(calling(lambda: None, after))
    other.start()
    assert after.wait(LIMIT)
    assert other.join(LIMIT)


def test_a_callback_that_hangs_holds_up_no_other_reflector() -> None:
    go_on = threading.Event()
    hanging = [driving(calling(lambda: go_on.wait(LIMIT) and None, threading.Event())) for _ in range(20)]
    for driver in hanging:
        driver.start()
    after = threading.Event()
    driving(calling(lambda: None, after)).start()
    assert after.wait(LIMIT)
    go_on.set()
    assert all(driver.join(LIMIT) for driver in hanging)
