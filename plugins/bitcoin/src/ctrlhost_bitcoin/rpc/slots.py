"""Limits on the calls in flight: a few per daemon, whose threads its users need too, and one in all."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ctrlhost_bitcoin.rpc.errors import Closed

if TYPE_CHECKING:
    from collections.abc import Iterator


class Slots:
    """At most `total` slots, and `per_daemon` of each daemon, for which threads wait; all methods are thread-safe."""

    def __init__(self, total: int, per_daemon: int) -> None:
        """Start with all slots free."""
        self._total, self._per_daemon = total, per_daemon
        self._changed = threading.Condition()
        self._taken: Counter[tuple[str, int]] = Counter()
        self._closed = False

    @contextmanager
    def hold(self, host: str, port: int) -> Iterator[None]:
        """Hold a slot of that daemon; raises `Closed` after `close`."""
        key = (host, port)
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._free(key))
            if self._closed:
                raise Closed("the client was closed")
            self._taken[key] += 1
        try:
            yield
        finally:
            with self._changed:
                self._taken[key] -= 1
                if not self._taken[key]:
                    del self._taken[key]
                self._changed.notify_all()

    def close(self) -> None:
        """Hand out no further slots; those that are held stay valid."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _free(self, key: tuple[str, int]) -> bool:
        return self._taken[key] < self._per_daemon and self._taken.total() < self._total
