from __future__ import annotations

import threading

from ctrlhost.health import Check
from ctrlhost.plugin.probe import PluginCheck


def outcome(check: PluginCheck) -> Check:
    check.start().result(30)
    return check.last()


def test_a_check_that_raises_fails_with_its_exception():
    def failing() -> None:
        raise RuntimeError("no peers")

    assert outcome(PluginCheck("p/a", lambda: None)) == Check("p/a", passed=True)
    assert outcome(PluginCheck("p/a", failing)) == Check("p/a", passed=False, detail="RuntimeError: no peers")


def test_a_check_that_hangs_is_not_called_twice():
    hanging, calls = threading.Event(), []

    def hang() -> None:
        calls.append(1)
        hanging.wait(30)

    check = PluginCheck("p/a", hang)
    assert check.start() is check.start()
    assert check.last() == Check("p/a", passed=True, detail="no answer yet")
    hanging.set()
    assert outcome(check).passed
    assert len(calls) == 1
