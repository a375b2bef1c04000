"""The CA and the client certificate of a connection, as their files were last usable."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from ctrlhost._core import Tls
    from ctrlhost.kubeconfig.connection import Connection

log = logging.getLogger("ctrlhost.client.transport")

_CHECK_INTERVAL = 1.0
"""Seconds between two looks at the files; a 401 forces one."""


class Trust:
    """Reads the files again when they change. A file that is missing or half written leaves the last good ones in use.

    Safe to use from any thread.
    """

    def __init__(self, connection: Connection) -> None:
        """Read the files; ConfigError if they are unusable."""
        self._connection = connection
        self._lock = threading.Lock()
        self._stamp = connection.stamp()
        self._changes = connection.tls_changes
        self._checked_at = time.monotonic()
        #: Whether the log has said that the files are unusable.
        self._said = False
        #: What the files were when this began.
        self.first = connection.tls()
        #: When the client certificate in use expires, in seconds since the epoch; None if that is unknown.
        self.expiry = connection.certificate_expiry() if self.first is not None else None
        self._note(self.first)

    def changed(self, *, now: bool = False) -> Tls | None:
        """Return the new settings if there are some since the last call; looks once a second, or `now`."""
        if self.first is None:
            return None
        same = self._changes is self._connection.tls_changes
        if same and not now and time.monotonic() - self._checked_at < _CHECK_INTERVAL:
            return None
        with self._lock:
            self._checked_at = time.monotonic()
            self._changes = self._connection.tls_changes
            stamp = self._connection.stamp()
            if stamp == self._stamp:
                return None
            try:
                tls = self._connection.tls()
            except ConfigError as error:
                # Another program is about to write them.
                self._say(error)
                return None
            if self._connection.stamp() != stamp:
                # They changed meanwhile; the next look finds all of it.
                return None
            self._stamp, self._said = stamp, False
            self.expiry = self._connection.certificate_expiry()
            self._note(tls)
            return tls

    def _say(self, error: ConfigError) -> None:
        if not self._said:
            self._said = True
            log.warning("%s; using the last usable certificates", error)

    def _note(self, tls: Tls | None) -> None:
        for note in tls.notes if tls is not None else ():
            log.warning("%s: %s", self._connection.source, note)
