"""A value that a process makes once, on first use; a forked child makes its own."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")


class PerProcess(Generic[_T]):
    """A value with a thread or a lock, which a fork leaves unusable. To be created when a module is imported."""

    def __init__(self, make: Callable[[], _T]) -> None:
        """Make the value with `make`, once in each process."""
        self._make = make
        self._forget()
        # Not on Windows, which cannot fork. Another thread may have the lock when a fork copies it.
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def get(self) -> _T:
        """Return the value; safe from any thread."""
        if not self._values:
            with self._lock:
                if not self._values:
                    self._values.append(self._make())
        return self._values[0]

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._values: list[_T] = []
