"""The operating system's process of an isolated plugin: start, end, memory and processor time."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from ctrlhost.supervisor.channel import Channel

#: The module that the process runs.
_PROGRAM = "ctrlhost.host.child"
#: Linux's flag of the clock of a process: CPUCLOCK_SCHED.
_PROCESS_CLOCK = 2


class Process:
    """A new interpreter, spawned and not forked, in a process group of its own. Callable from any thread."""

    def __init__(self, plugin: str, directory: Path, spent: float = 0.0) -> None:
        """Start it in the present folder, with the same output; OSError or RuntimeError if that is not possible.

        `plugin` is for those who look at the list of processes. `spent` is the processor time of the plugin's earlier
        processes, in seconds.
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
                # Not a shell, and no argument from outside. `-P`: no module of the present folder hides another one.
                self._popen = subprocess.Popen(  # noqa: S603
                    [sys.executable, "-P", "-m", _PROGRAM, str(theirs.fileno()), plugin],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    process_group=0,
                    env=child_environment(),
                )
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
            self._popen.wait()
            self._gone.set()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._popen.pid

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._gone.is_set()

    @property
    def code(self) -> int:
        """Its exit code, or the negative number of a signal, once it has ended."""
        return self._popen.returncode

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
        if sys.platform == "linux" and not self.ended:
            with contextlib.suppress(OSError):
                now = time.clock_gettime(~self.pid << 3 | _PROCESS_CLOCK)
                self._own_seconds = max(self._own_seconds, now)
        return self._spent + self._own_seconds


def child_environment() -> dict[str, str]:
    """Return the environment of a child process, which finds `ctrlhost` where this one did."""
    import ctrlhost

    above = str(Path(ctrlhost.__file__).resolve().parent.parent)
    known = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": f"{above}{os.pathsep}{known}" if known else above}


def described(code: int) -> str:
    """Return an exit code in words: `exit code 3`, or `SIGSEGV`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
