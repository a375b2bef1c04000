"""Gates at which code in other processes waits, without polling, until the test opens them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Gate:
    """A named pipe at `path`: `open(path).close()` in another process returns when the gate is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._end: int | None = None
        os.mkfifo(path)

    def open(self) -> None:
        """Open the gate for all, now and later."""
        # With one end that writes, each `open` for reading returns at once.
        self._end = os.open(self.path, os.O_RDWR)

    def close(self) -> None:
        """Release all that wait now; nobody may come later."""
        if self._end is None:
            self.open()
        assert self._end is not None
        os.close(self._end)
        self._end = None
