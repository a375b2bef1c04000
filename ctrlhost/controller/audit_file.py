"""The file of an audit log: a thread writes it, so that a full disk or a pipe blocks no reconcile."""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import time
from pathlib import Path

log = logging.getLogger("ctrlhost.audit")

#: Lines that may wait to be written.
_WAITING = 10_000
#: Seconds between two tries to open a file that cannot be written.
_RETRY = 1.0
#: Seconds for the last lines at the end.
_END = 1.0
_MODE = 0o640


class AuditFile:
    """Appends lines to a file, or to stderr. Callable from any thread.

    A file that was renamed or removed is opened anew. While it cannot be written, lines are dropped, and counted in one
    line of the log at the begin and one at the end.
    """

    def __init__(self, path: str) -> None:
        """Start the thread; `path` is `stderr`, or that of the file."""
        self._path = path
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._file: int | None = None
        self._lost = 0
        self._failed = False
        #: Whether the last line was written in part.
        self._torn = False
        self._retry_at = 0.0
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Append a line soon."""
        if self._lines.qsize() < _WAITING:
            self._lines.put(line)
        else:
            self._lost += 1

    def close(self) -> None:
        """Write what waits, for at most a second; later lines are lost."""
        self._lines.put(None)
        self._thread.join(_END)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            self._append(line)
        if self._file is not None and self._path != "stderr":
            os.close(self._file)

    def _append(self, line: bytes) -> None:
        if time.monotonic() < self._retry_at:
            self._lost += 1
            return
        try:
            self._open()
            if self._file is not None:
                self._write(self._file, line)
        except OSError as error:
            self._lost += 1
            self._retry_at = time.monotonic() + _RETRY
            if not self._failed:
                self._failed = True
                reason = (error.strerror or str(error)).lower()
                log.error("audit log %s cannot be written, and writes go on without it: %s", self._path, reason)
            return
        if self._failed:
            self._failed = False
            log.warning("audit log %s is written again; lines lost: %d", self._path, self._lost)
            self._lost = 0

    def _open(self) -> None:
        """Open the file, again if its path leads to another one by now."""
        if self._path == "stderr":
            self._file = sys.stderr.fileno()
            return
        if self._file is not None:
            try:
                here, there = os.fstat(self._file), Path(self._path).stat()
                same = (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
            except FileNotFoundError:
                same = False
            if same:
                return
            os.close(self._file)
            self._file, self._torn = None, False
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)

    def _write(self, file: int, line: bytes) -> None:
        # A part of a line, for which a full disk had room, must not spoil the next one.
        rest = b"\n" + line if self._torn else line
        while rest:
            rest = rest[os.write(file, rest) :]
            self._torn = bool(rest)
