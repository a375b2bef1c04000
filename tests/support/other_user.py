"""Code that runs as another user, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

NOBODY = 65534

_BECOME = "import os; os.setgroups([]); os.setresgid({0}, {0}, {0}); os.setresuid({0}, {0}, {0})"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a process as another user")


def run_as_nobody(code: str, *arguments: str, imports: str, **environment: str) -> str:
    """Return what the code prints as another user; `imports` are made before, as the interpreter may be private."""
    program = "\n".join([imports, _BECOME.format(NOBODY), code])
    command = [sys.executable, "-c", program, *arguments]
    environ = {**os.environ, **environment}
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()
