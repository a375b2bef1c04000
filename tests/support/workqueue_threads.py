"""Threads with blocking calls."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctrlhost.testing import ManualClock


class Background:
    """A call in its own thread, and its result."""

    def __init__(self, call: Any, *args: Any) -> None:
        self.answer: Any = None
        self.raised: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(call, *args), daemon=True)
        self._thread.start()

    def _run(self, call: Any, *args: Any) -> None:
        try:
            self.answer = call(*args)
        except BaseException as error:  # noqa: BLE001
            self.raised = error

    @property
    def waits(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> Any:
        self._thread.join(20)
        assert not self._thread.is_alive(), "the call still blocks"
        if self.raised is not None:
            raise self.raised
        return self.answer


def wait_for_sleepers(clock: ManualClock, threads: int = 1) -> None:
    """Wait until `threads` threads sleep on the clock."""
    pause = threading.Event()
    while clock.waiters() < threads:
        pause.wait(0.001)
