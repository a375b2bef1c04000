from __future__ import annotations

from ctrlhost.health import Check, report


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


def test_a_line_that_only_informs_does_not_decide():
    checks = [Check("ping", passed=True), Check("plugin/naming", passed=False, detail="failing", decides=False)]
    assert report("readyz", checks, verbose=False) == (200, "ok")
    assert report("readyz", checks, verbose=True)[1] == (
        "[+]ping ok\n[-]plugin/naming failed: failing\nreadyz check passed\n"
    )
