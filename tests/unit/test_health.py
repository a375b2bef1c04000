from __future__ import annotations

import threading

from ctrlhost.health import Check, PluginCheck, report


def test_a_success_is_ok_and_shows_its_lines_only_on_request():
    checks = [Check("ping", passed=True), Check("plugin/naming", passed=True, detail="running")]
    assert report("readyz", checks, verbose=False) == (200, "ok")
    status, body = report("readyz", checks, verbose=True)
    assert status == 200
    assert body == "[+]ping ok\n[+]plugin/naming ok: running\nreadyz check passed\n"


def test_a_failure_shows_every_line():
    checks = [Check("ping", passed=True), Check("plugin/naming", passed=False, detail="failed:\nno such module")]
    status, body = report("readyz", checks, verbose=False)
    assert status == 503
    assert body == "[+]ping ok\n[-]plugin/naming failed: failed: no such module\nreadyz check failed\n"


def test_a_check_that_raises_fails_with_its_exception():
    def failing() -> None:
        raise RuntimeError("no peers")

    assert PluginCheck("a", lambda: None).run() == Check("a", passed=True)
    assert PluginCheck("a", failing).run() == Check("a", passed=False, detail="RuntimeError: no peers")


def test_a_check_that_hangs_fails_and_is_not_started_twice():
    hanging, calls = threading.Event(), []

    def hang() -> None:
        calls.append(1)
        hanging.wait(30)

    check = PluginCheck("a", hang)
    assert not check.run(0.01).passed
    assert not check.run(0.01).passed
    assert len(calls) == 1
    hanging.set()
    assert check.run(30).passed
