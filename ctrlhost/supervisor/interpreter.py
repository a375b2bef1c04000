"""A new interpreter in a process of its own, and the processor time of a process."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

#: Linux's flag of the clock of a process: CPUCLOCK_SCHED.
_PROCESS_CLOCK = 2


def spawn(module: str, descriptor: int, *arguments: str) -> subprocess.Popen[bytes]:
    """Run a module of ours with this descriptor and these arguments, in a process group of its own."""
    # Not a shell, and no argument from outside. `-P`: no module of the present folder hides another one.
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-P", "-m", module, str(descriptor), *arguments],
        stdin=subprocess.DEVNULL,
        pass_fds=(descriptor,),
        process_group=0,
        env=child_environment(),
    )


def child_environment() -> dict[str, str]:
    """Return the environment of a child process, which finds `ctrlhost` where this one did."""
    import ctrlhost

    above = str(Path(ctrlhost.__file__).resolve().parent.parent)
    known = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": f"{above}{os.pathsep}{known}" if known else above}


def cpu_seconds_of(pid: int) -> float:
    """Return the processor time of a process; 0 where it cannot be read."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)
    return 0.0
