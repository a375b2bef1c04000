"""The snapshot that `/readyz` shows."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from ctrlhost import For
from ctrlhost.host import inspection
from ctrlhost.host.snapshot import Snapshot
from tests.host.supervision.test_probes import fetch
from tests.support.misbehaviour import Hang
from tests.support.plugin_modules import plugin_of
from tests.support.waiting import eventually

SERVED = {"listen": "127.0.0.1:0"}


@pytest.mark.behaviour("operations/OP13")
def test_a_state_that_cannot_be_read_makes_the_host_unready(start, hang: Hang, monkeypatch: pytest.MonkeyPatch) -> None:
    assert inspection._STUCK_AFTER == 10
    monkeypatch.setattr(inspection, "_STUCK_AFTER", 2.0)
    module = plugin_of(lambda plugin: plugin.add_controller("c", lambda ctx, request: None, For("v1", "Pod")), "bad")
    host = start(module, **SERVED)
    eventually(lambda: fetch(host, "/readyz") == (200, "ok"))
    informer = host.host.factory.informers()[0]
    monkeypatch.setattr(type(informer), "status", hang)
    eventually(hang.begun.is_set)
    # The last snapshot is shown until it is too old.
    assert fetch(host, "/readyz")[0] == 200
    status, body = eventually(lambda: (answer := fetch(host, "/readyz"))[0] == 503 and answer)
    assert status == 503
    (line,) = [line for line in body.splitlines() if line.startswith("[-]")]
    assert line.startswith("[-]state failed: ")
    assert line.endswith(" s old, reading informers")
    assert fetch(host, "/livez") == (200, "ok")
    assert fetch(host, "/readyz/good")[0] == 503
    monkeypatch.undo()
    hang.release()
    eventually(lambda: fetch(host, "/readyz") == (200, "ok"))


def test_a_change_is_read_by_the_next_reading_that_begins() -> None:
    values = iter(range(100))
    reading, go_on = threading.Semaphore(0), threading.Semaphore(0)

    def read() -> int:
        value = next(values)
        reading.release()
        go_on.acquire()
        return value

    snapshot = Snapshot(read, -1)
    snapshot.changed()
    assert snapshot.pending() is None
    snapshot.start()
    assert reading.acquire(timeout=30)
    assert snapshot.value == -1
    # A change in the middle of a reading.
    snapshot.changed()
    pending = snapshot.pending()
    assert pending is not None
    go_on.release()
    assert reading.acquire(timeout=30)
    assert not pending.done()
    assert snapshot.value == 0
    go_on.release()
    pending.result(30)
    assert snapshot.value == 1
    assert snapshot.pending() is None
    snapshot.stop()
    for _ in range(3):
        go_on.release()


def test_a_reading_that_raises_is_logged_once_and_leaves_the_value(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[Any] = []

    def read() -> int:
        calls.append(1)
        if 1 < len(calls) < 4:
            raise RuntimeError("on purpose")
        return len(calls)

    snapshot = Snapshot(read, 0)
    snapshot.start()
    eventually(lambda: snapshot.value == 4)
    snapshot.stop()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert snapshot.age < 30
