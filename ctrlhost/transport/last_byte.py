"""When each API server last sent something, on any connection of this process."""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary

from ctrlhost._core import LastByte
from ctrlhost.transport.per_process import PerProcess


class _Servers:
    """The servers of one process, by their addresses."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: WeakValueDictionary[tuple[object, ...], LastByte] = WeakValueDictionary()

    def get(self, address: tuple[object, ...]) -> LastByte:
        with self._lock:
            known = self._known.get(address)
            if known is None:
                known = self._known[address] = LastByte()
            return known


_servers = PerProcess(_Servers)


def last_byte_from(*address: object) -> LastByte:
    """Return the time of the last byte from an address, for all transports to it. Callable from any thread."""
    return _servers.get().get(address)
