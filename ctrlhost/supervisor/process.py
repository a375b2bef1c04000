"""The operating system's process of an isolated plugin: start, end, memory and processor time."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ctrlhost.supervisor.channel import Channel
from ctrlhost.supervisor.interpreter import cpu_seconds_of, spawn

if TYPE_CHECKING:
    from ctrlhost.supervisor.fork_server import ForkServer

#: The module that the process runs.
_PROGRAM = "ctrlhost.host.child"


class Process:
    """A process without the threads of this one, in a process group of its own. Callable from any thread."""

    def __init__(self, plugin: str, directory: Path, forks: ForkServer, spent: float = 0.0) -> None:
        """Start it in the present folder, with the same output; OSError or RuntimeError if that is not possible.

        `plugin` is for those who look at the list of processes. It is forked from `forks`; where that cannot fork, it
        is a new interpreter. `spent` is the processor time of the plugin's earlier processes, in seconds.
        """
        ours, theirs = socket.socketpair()
        self.directory = directory
        self.began = time.monotonic()
        self._spent, self._own_seconds = spent, 0.0
        self._gone = threading.Event()
        #: Guards its number, which belongs to it until its end is taken note of.
        self._lock = threading.Lock()
        self.channel = Channel(ours, of_process=False)
        try:
            with theirs:
                self._started = forks.fork(plugin, theirs) or spawn(_PROGRAM, theirs.fileno(), plugin)
            try:
                threading.Thread(target=self._wait, name=f"process {self.pid}", daemon=True).start()
            except BaseException:
                self.kill()
                self._wait()
                raise
        except BaseException:
            self.channel.close()
            raise

    def _wait(self) -> None:
        # ChildProcessError: somebody else has taken note of its end, so that its code is not known.
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            # What it has started, and left behind in its group.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self.cpu_seconds()
            self._started.wait()
            self._gone.set()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._started.pid

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._gone.is_set()

    @property
    def code(self) -> int:
        """Its exit code, or the negative number of a signal, once it has ended."""
        return self._started.returncode

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for its end; False at the timeout."""
        return self._gone.wait(timeout)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it, unless it has ended."""
        with self._lock, contextlib.suppress(ProcessLookupError):
            if not self.ended:
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.signal(signal.SIGKILL)

    def rss(self) -> int:
        """Return its resident memory in bytes; 0 if it has ended, and where there is no `/proc`."""
        if self.ended:
            return 0
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        except (OSError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> float:
        """Return its processor time and that of the processes before it; 0 where it cannot be read."""
        if not self.ended:
            self._own_seconds = max(self._own_seconds, cpu_seconds_of(self.pid))
        return self._spent + self._own_seconds


def described(code: int) -> str:
    """Return an exit code in words: `exit code 3`, or `SIGSEGV`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
