from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from ctrlhost.host.signals import StopSignals
from tests.support.waiting import eventually


@pytest.mark.behaviour("findings3/NO14")
def test_many_hangups_before_a_reload_are_one():
    woken = []
    stopping = threading.Event()
    signals = StopSignals(stopping, lambda: woken.append(True))
    # `nohup` ignores it.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with signals.caught():
            for _ in range(100):
                signal.raise_signal(signal.SIGHUP)
            assert signals.reload
            signals.reload = False
            signal.raise_signal(signal.SIGHUP)
            assert signals.reload
    finally:
        signal.signal(signal.SIGHUP, before)
    eventually(lambda: len(woken) == 2)
    assert not stopping.is_set()


NO_DESCRIPTORS = """
import resource
from ctrlhost.host import signals

resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
assert signals._has_terminal()
"""


@pytest.mark.behaviour("findings3/NO14")
def test_a_terminal_does_not_count_as_closed_where_no_descriptor_is_left() -> None:
    done = subprocess.run([sys.executable, "-c", NO_DESCRIPTORS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
