"""Decoding into types that several threads may meet for the first time at once."""

from __future__ import annotations

import threading
from typing import Any

import msgspec

_lock = threading.Lock()
_known: set[Any] = set()


def decode(text: bytes, kind: Any) -> Any:
    """Decode JSON as `kind`. Any thread may call it; errors are msgspec's.

    msgspec looks a type over when it is first used, and crashes when two threads do that at once.
    """
    learn(kind)
    return msgspec.json.decode(text, type=kind)


def learn(*kinds: Any) -> None:
    """Have msgspec look these types over, one thread at a time."""
    for kind in kinds:
        try:
            if kind in _known:
                continue
        except TypeError:  # Not hashable, like some annotations: looked over each time.
            with _lock:
                msgspec.json.Decoder(kind)
            continue
        with _lock:
            msgspec.json.Decoder(kind)
            _known.add(kind)
