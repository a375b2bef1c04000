"""The `Authorization` header of requests, and its one refresh for all requests that the server rejected."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from ctrlhost.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.kubeconfig.credentials import Credentials

_T = TypeVar("_T")


class Authorization:
    """The credentials of one connection. Safe to use from any thread."""

    def __init__(self, credentials: Credentials) -> None:
        """Ask `credentials` before each request."""
        self._credentials = credentials
        self._lock = threading.Lock()
        #: When the last refresh ended, by `time.monotonic`, and whether it found another credential.
        self._refreshed_at, self._renewed = float("-inf"), False
        #: The one thread that waits for credentials; it starts with the first wait.
        self._waiting = ThreadPoolExecutor(1, "ctrlhost credentials")

    def header(self, timeout: float) -> str | None:
        """Return the header for the next request; wait at most `timeout` seconds for it."""
        return self._credentials.authorization(timeout)

    def ready(self) -> bool:
        """Return whether `header` would return without waiting."""
        return self._credentials.ready()

    def at_hand(self) -> str | None:
        """Return the header for the next request; None without one, and if there would be a wait for it."""
        return self._credentials.authorization(0.0) if self.ready() else None

    def refresh(self, rejected: str | None, sent_at: float, timeout: float) -> bool:
        """Renew a header that got a 401; return whether another attempt may carry a new one.

        One refresh is for all requests that were sent before it ended; `sent_at` is by `time.monotonic`. TransportError
        if it does not end within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        if not self._lock.acquire(timeout=max(timeout, 0.0)):
            raise TransportError(f"the credentials were not renewed within {timeout:.3g} s", sent=False)
        try:
            if self._refreshed_at < sent_at:
                self._renewed = self._credentials.refresh(rejected, max(deadline - time.monotonic(), 0.0))
                self._refreshed_at = time.monotonic()
            return self._renewed
        finally:
            self._lock.release()

    async def header_async(self, timeout: float) -> str | None:  # noqa: ASYNC109 - as in `header`
        """Do `header` without blocking the event loop."""
        return await self._in_thread(lambda: self.header(timeout))

    async def refresh_async(self, rejected: str | None, sent_at: float, timeout: float) -> bool:  # noqa: ASYNC109
        """Do `refresh` without blocking the event loop."""
        return await self._in_thread(lambda: self.refresh(rejected, sent_at, timeout))

    async def _in_thread(self, call: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._waiting, call)
