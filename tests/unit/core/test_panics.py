"""A panic in a call out of the core: the next call neither waits nor loses anything.

The border turns a panic into `PanicException`, and that exception, raised by a callback, into a panic.
"""

from __future__ import annotations

import queue
from typing import Any

import pytest

from ctrlhost.cache import DeltaFIFO
from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import MaxOfRateLimiter, WorkQueue
from tests.support.workqueue_threads import Background
from tests.unit.core.delta_scripts import ignore, thing

behaviour = pytest.mark.behaviour


@pytest.fixture
def panic() -> type[BaseException]:
    """The exception that panics. It cannot be imported, and other extensions have one of the same name."""
    kinds = [kind for kind in BaseException.__subclasses__() if kind.__name__ == "PanicException"]
    (panicking,) = (kind for kind in kinds if panics(kind))
    return panicking


def panics(kind: type[BaseException]) -> bool:
    """Return whether the border turns the exception into a panic: what comes out is then another instance."""
    raised = kind("probe")
    try:
        MaxOfRateLimiter(Limiter(raised)).when("foo")
    except kind as caught:
        return caught is not raised
    return False


@behaviour("findings/FQ19")
def test_after_a_panic_of_process_others_can_pop(panic: type[BaseException]) -> None:
    fifo = DeltaFIFO()
    for name in "abc":
        fifo.add(thing(name, 1))

    def fail(*_: Any) -> None:
        raise panic("injected")

    for _ in range(2):
        with pytest.raises(panic, match="injected"):
            fifo.pop(fail)
    (delta,) = Background(fifo.pop, ignore, 20).result()
    assert delta.object.name == "c"
    with pytest.raises(queue.Empty):
        fifo.pop(ignore, timeout=0)


class Known:
    """Known objects that panic."""

    def __init__(self, panic: type[BaseException], method: str) -> None:
        self.panic: type[BaseException] | None = panic
        self.method = method

    def list_keys(self) -> list[str]:
        self._check("list_keys")
        return ["old"]

    def get_by_key(self, _key: str) -> None:
        self._check("get_by_key")

    def _check(self, method: str) -> None:
        if self.panic is not None and method == self.method:
            raise self.panic("injected")


@behaviour("findings/FQ19")
@pytest.mark.parametrize("method", ["list_keys", "get_by_key"])
@pytest.mark.parametrize("compare", ["replace", "resync"])
def test_after_a_panic_of_a_comparison_keys_are_handed_out(
    panic: type[BaseException], method: str, compare: str
) -> None:
    known = Known(panic, method)
    fifo = DeltaFIFO(known)
    fifo.add(thing("a", 1))
    arguments = ([thing("a", 2)], "2") if compare == "replace" else ()
    for _ in range(2):
        with pytest.raises(panic, match="injected"):
            getattr(fifo, compare)(*arguments)
    (delta,) = Background(fifo.pop, ignore, 20).result()
    assert delta.object.name == "a"
    known.panic = None
    getattr(fifo, compare)(*arguments)


class Limiter:
    """A limiter that raises `fault` while it is set."""

    def __init__(self, fault: BaseException) -> None:
        self.fault: BaseException | None = fault

    def when(self, _key: Any) -> float:
        return self._answer(0.5)

    def forget(self, _key: Any) -> None:
        self._answer(0)

    def num_requeues(self, _key: Any) -> int:
        return int(self._answer(0))

    def _answer(self, answer: float) -> float:
        if self.fault is not None:
            raise self.fault
        return answer


@behaviour("findings/FQ19")
def test_after_a_panic_of_a_limiter_the_next_retry_asks_it_again(
    panic: type[BaseException], clock: ManualClock
) -> None:
    limiter = Limiter(panic("injected"))
    work_queue = WorkQueue(clock=clock, rate_limiter=limiter)
    for call in (work_queue.add_rate_limited, work_queue.forget, work_queue.num_requeues):
        for _ in range(2):
            with pytest.raises(panic, match="injected"):
                call("foo")
    limiter.fault = None
    assert work_queue.snapshot() == ([], [], [])
    work_queue.add_rate_limited("foo")
    clock.advance(0.5)
    assert work_queue.get_nowait() == "foo"
    work_queue.done("foo")
    assert work_queue.snapshot() == ([], [], [])


@behaviour("findings/FQ19")
def test_after_a_panic_of_fair_by_the_key_can_be_added(panic: type[BaseException], clock: ManualClock) -> None:
    panics = [True]

    def group(key: str) -> str:
        if panics:
            raise panic("injected")
        return key

    work_queue = WorkQueue(clock=clock, fair_by=group)
    for call in (work_queue.add, work_queue.add_rate_limited, lambda key: work_queue.add_many([key])):
        with pytest.raises(panic, match="injected"):
            call("foo")
    panics.clear()
    work_queue.add("foo")
    assert work_queue.get_nowait() == "foo"
