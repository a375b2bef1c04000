"""How the threads of a host share the interpreter."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def switching_after(seconds: float) -> Iterator[None]:
    """Let threads take turns after so many seconds, in the whole process, as long as the block runs.

    Python's own 5 ms are long beside an event that takes 20 µs: whoever wants to go on while another thread computes
    waits for that long, once for a key, once for an answer, once for whatever else it let the interpreter go for.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
