"""How long a computing thread of this process keeps the interpreter while others wait for it."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def switching_after(seconds: float) -> Iterator[None]:
    """Set the interpreter's switch interval, in seconds, for the whole process while the block runs.

    The default of 5 ms is long compared with an event of 20 µs: a thread that released the interpreter lock waits up to
    that long for it while another thread computes, once per key and once per response.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
