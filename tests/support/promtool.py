"""promtool and prometheus, from the path, from $PROMTOOL or as `tests/promtool/fetch` has unpacked them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_UNPACKED = Path(__file__).parents[2] / ".cache" / "prometheus" / "usr" / "bin"


def program(name: str) -> str:
    """Return the path of `promtool` or `prometheus`; skip without it, which fails in CI."""
    named = os.environ.get("PROMTOOL")
    beside = Path(named).with_name(name) if named else None
    for path in (beside, shutil.which(name), _UNPACKED / name):
        if path is not None and os.access(path, os.X_OK):
            return str(path)
    pytest.skip(f"{name} is missing: run `make real-tools`, or set PROMTOOL to a promtool beside it")


def promtool(*arguments: str | Path, text: str | None = None) -> tuple[int, str]:
    """Run promtool with `given` as its input; return its exit code and what it said."""
    done = subprocess.run(
        [program("promtool"), *map(str, arguments)],
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout
