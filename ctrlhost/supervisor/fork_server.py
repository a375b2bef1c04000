"""A process that has imported what those of isolated plugins import, and forks them: imports take most of a start.

The program is `ctrlhost.host.fork_server`. What it forks becomes a child of this process, as one that is spawned:
its end, its exit code and its number belong to the host, whatever becomes of the server. `multiprocessing.forkserver`
is itself the parent, takes note of an end before the host has seen it, and imports the host's main module in each
process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ctrlhost import _core
from ctrlhost.supervisor.interpreter import child_environment, cpu_seconds_of, spawn

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger("ctrlhost.host")

_PROGRAM = "ctrlhost.host.fork_server"
#: Seconds for the imports, between two looks whether they are still waited for, and for a fork.
_READY, _PERIOD, _FORK = 30.0, 0.05, 2.0
#: The messages of the server beside the number of a new process, and the bytes of the longest.
READY, ADOPTABLE = b"ready", b"adoptable"
_ANSWER = 32
#: Which processes this one adopts is a state of the whole process.
_adoption = threading.Lock()


class ForkServer:
    """Forks processes of plugins, where the platform has it. Callable from any thread."""

    def __init__(self, *, spared: int = 0) -> None:
        """Prepare; this starts nothing. The first `spared` processes are spawned: a server takes memory, too."""
        self._spared = spared
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._closed = sys.platform != "linux"

    def prepare(self, unless: threading.Event) -> None:
        """Wait until `fork` can be called, or would return None, or the event is set.

        Start the server if it does not run, or if this process has got another environment, folder, limits or cgroup
        since: processes inherit what the server has.
        """
        server = self._started()
        if server is not None:
            server.await_ready(unless)

    def fork(self, plugin: str, end: socket.socket) -> Forked | None:
        """Start the process of a plugin with this end of its control socket; None if it has to be spawned."""
        with self._lock:
            server = self._server
            if server is None or not server.ready.is_set():
                return None
            try:
                return Forked(server.fork(plugin, end))
            except (OSError, ValueError) as error:
                log.debug("process %d cannot fork: %s", server.pid, error)
                self._end()
                return None

    def cpu_seconds(self) -> float:
        """Return the processor time of the server; 0 without one."""
        server = self._server
        return cpu_seconds_of(server.pid) if server is not None else 0.0

    def close(self) -> None:
        """End the server: from now on `fork` returns None. May be repeated."""
        with self._lock:
            self._closed = True
            self._end()

    def _started(self) -> _Server | None:
        with self._lock:
            self._spared -= 1
            if self._closed or self._spared >= 0:
                return None
            try:
                surroundings = _surroundings()
                if self._server is not None and (self._server.ended or self._server.surroundings != surroundings):
                    self._end()
                if self._server is None:
                    self._server = _Server(surroundings)
            except OSError as error:
                log.debug("no process to fork from: %s", error)
            return self._server

    def _end(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


class Forked:
    """A process that was forked, with what is needed of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        """Take over a child of this process."""
        self.pid = pid
        #: Its exit code, or the negative number of a signal; known after `wait`.
        self.returncode = 0

    def wait(self) -> int:
        """Wait for its end, and return its code; 0 if somebody else has taken note of its end."""
        with contextlib.suppress(ChildProcessError):
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


class _Surroundings(NamedTuple):
    """What processes inherit beside the output."""

    environment: dict[str, str]
    folder: str
    limits: bytes
    cgroup: bytes


class _Server:
    """One process that forks. `fork` and `close` are called by one thread at a time."""

    def __init__(self, surroundings: _Surroundings) -> None:
        self.surroundings = surroundings
        #: Set when it can fork, or has ended.
        self.ready = threading.Event()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_FORK)
        self._descriptor = self._socket.fileno()
        with theirs:
            # The last argument makes room for the commands of its children.
            self._popen = spawn(_PROGRAM, theirs.fileno(), " " * 64)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def ended(self) -> bool:
        return self._popen.poll() is not None

    def await_ready(self, unless: threading.Event) -> None:
        looking = select.poll()
        looking.register(self._descriptor, select.POLLIN)
        limit = time.monotonic() + _READY
        while not self.ready.is_set() and not unless.is_set() and time.monotonic() < limit:
            # A message, or its end.
            if looking.poll(_PERIOD * 1000):
                self.ready.set()

    def fork(self, plugin: str, end: socket.socket) -> int:
        with _adopting():
            socket.send_fds(self._socket, [plugin.encode()], [end.fileno(), 1, 2])
            while (answer := self._socket.recv(_ANSWER)) == READY:
                pass
            pid = int(answer)
            if self._socket.recv(_ANSWER) != ADOPTABLE:
                raise ConnectionError("it has ended")
        # ChildProcessError, which is an OSError, if it was not adopted.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return pid

    def close(self) -> None:
        self._popen.kill()
        self._popen.wait()
        self._socket.close()


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Become the parent of each descendant whose own parent ends meanwhile."""
    with _adoption:
        before = _core.adopt_orphans(True)
        try:
            yield
        finally:
            _core.adopt_orphans(before)


def _surroundings() -> _Surroundings:
    folder = Path("/proc/self")
    return _Surroundings(
        child_environment(), str(Path.cwd()), (folder / "limits").read_bytes(), (folder / "cgroup").read_bytes()
    )
