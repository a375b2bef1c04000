"""Decoding of JSON into msgspec types, safe on the first use of a type by several threads."""

from __future__ import annotations

import threading
from typing import Any

import msgspec

_lock = threading.Lock()
_known: set[Any] = set()


def decode(text: bytes, kind: Any) -> Any:
    """Decode JSON as `kind`, from any thread; errors are msgspec's.

    msgspec inspects a type on first use, and crashes when two threads do that at once.
    """
    prepare(kind)
    return msgspec.json.decode(text, type=kind)


def prepare(*kinds: Any) -> None:
    """Prepare the decoders of these types, one thread at a time."""
    for kind in kinds:
        try:
            if kind in _known:
                continue
        except TypeError:  # Not hashable, like some annotations: inspected each time.
            with _lock:
                msgspec.json.Decoder(kind)
            continue
        with _lock:
            msgspec.json.Decoder(kind)
            _known.add(kind)
