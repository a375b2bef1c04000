"""The host of `ctrlhost dev`: a process of its own, of which nothing is left when the next one starts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MODULE = "ctrlhost.cli.dev_process"
#: Seconds that running work of the old process may take; a replacement waits for them.
DRAIN_SECONDS = 1.0
#: Seconds from the request to end until the process is killed.
_KILL_AFTER = 3.0


class DevProcess:
    """A `ctrlhost run` in a process group of its own, so that Ctrl-C reaches only the parent."""

    def __init__(self, arguments: Sequence[str]) -> None:
        """Start it with these arguments of `ctrlhost run`."""
        from ctrlhost.supervisor.interpreter import spawn

        # The process reads from the pipe until its parent has ended, however that happens.
        reading, self._pipe = os.pipe()
        try:
            self._process = spawn(_MODULE, reading, *arguments)
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(reading)

    def exit_code(self) -> int | None:
        """Return the exit code, or the negative number of a signal; None while it runs.

        What an ended one has left behind in its process group ends, too.
        """
        if self._process.returncode is None and self._has_ended():
            self._end_group()
        return self._process.returncode

    def stop(self) -> None:
        """End it, and what it has left behind in its process group."""
        if self.exit_code() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILL_AFTER)
            self._end_group()
        os.close(self._pipe)

    def _has_ended(self) -> bool:
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            # Somebody else has taken note of its end.
            return True

    def _end_group(self) -> None:
        # At once: later, its number may be that of another group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _end_with_parent(pipe: int) -> None:
    """End this process group when the other end of the pipe is closed."""
    # Nobody writes to it.
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(_KILL_AFTER)
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _main() -> None:
    from ctrlhost.cli import main

    pipe, arguments = int(sys.argv[1]), sys.argv[2:]
    # Compiled code is found by the time of the source in seconds and its size, which two versions may share.
    sys.dont_write_bytecode = True
    threading.Thread(target=_end_with_parent, args=(pipe,), name="parent", daemon=True).start()
    main(["run", *arguments])


if __name__ == "__main__":
    _main()
