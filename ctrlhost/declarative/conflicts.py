"""Conflicts of the host's own patches: the key runs again once the cache shows what the other writer did."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ctrlhost.clock import doubling
from ctrlhost.controller.results import RunAgain
from ctrlhost.transport.steps import Pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.cache import Object
    from ctrlhost.errors import Conflict
    from ctrlhost.request import Request
    from ctrlhost.transport.steps import Steps

#: The conflicts in a row of a key that do not count as failures.
FORGIVEN = 5
#: How long a run waits for the cache to show the version that won, in seconds.
WAIT_SECONDS = 1.0


class Conflicts:
    """The keys of one controller whose last run ended in a conflict of a patch that the host sent.

    Callable from any thread; a key is never reconciled twice at once.
    """

    def __init__(self) -> None:
        """Start without conflicts."""
        #: By key: the conflicts in a row, and the version that was patched.
        self._lost: dict[Request, tuple[int, str]] = {}

    def lost(self, key: Request, version: str, error: Conflict) -> Exception:
        """Return the error that ends the run: one that runs the key again, or `error` after five in a row."""
        count = self._lost.get(key, (0, ""))[0] + 1
        self._lost[key] = (count, version)
        return RunAgain(str(error)) if count <= FORGIVEN else error

    def over(self, key: Request) -> None:
        """Forget the conflicts of a key, whose run has ended without one."""
        self._lost.pop(key, None)

    def caught_up(self, key: Request, read: Callable[[], Object | None]) -> Steps[Object | None]:
        """Return what `read` returns, once that is no longer the version that lost, or after a second of real time.

        The stream from the server does not follow the clock of a test.
        """
        obj = read()
        if key not in self._lost:
            return obj
        version, deadline = self._lost[key][1], time.monotonic() + WAIT_SECONDS
        pauses = doubling(0.0005, 0.02)
        while obj is not None and obj.resource_version == version and time.monotonic() < deadline:
            yield Pause(next(pauses))
            obj = read()
        return obj
