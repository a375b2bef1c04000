"""Plugins are imported at once, each on its own thread: none sees a half-imported module of ours."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.behaviour("findings3/NO3")

#: Each start of a process imports from the beginning. A short interval makes threads meet within a module.
_BEGINNING = """
import sys, threading
sys.setswitchinterval(1e-6)
import ctrlhost
errors = []
barrier = threading.Barrier(8)

def run(number):
    barrier.wait()
    try:
        use(number)
    except BaseException as error:
        errors.append(repr(error))

def at_once():
    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return "; ".join(errors)
"""

#: The names of `from ctrlhost import ...`, in another order on each thread.
_PUBLIC_NAMES = """
def use(number):
    for name in ctrlhost.__all__[number:] + ctrlhost.__all__[:number]:
        getattr(ctrlhost, name)

sys.exit(at_once() or 0)
"""

#: All that a plugin may import, by the paths of modules, once the host has prepared.
_PLUGINS = """
from importlib import import_module
from ctrlhost.host import host
host._import_all()
before = {name for name in sys.modules if name.startswith("ctrlhost.")}

def use(number):
    for home in sorted(set(ctrlhost._HOMES.values()), reverse=number % 3 == 0):
        import_module(home)

errors = at_once()
late = {name for name in sys.modules if name.startswith("ctrlhost.")} - before
sys.exit(errors or ", ".join(sorted(late)) or 0)
"""


@pytest.mark.parametrize("script", [_PUBLIC_NAMES, _PLUGINS], ids=["public-names", "plugins-of-a-host"])
def test_threads_that_import_at_once_see_whole_modules(script: str) -> None:
    command = [sys.executable, "-c", _BEGINNING + script]
    for _ in range(5):
        start = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert (start.returncode, start.stderr) == (0, "")
