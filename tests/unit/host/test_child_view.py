"""What a host shows of another process is waited for only while that process answers in time."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from starlette.responses import PlainTextResponse

from ctrlhost.host.child_view import Answer, ChildView
from ctrlhost.host.reports import Reports
from ctrlhost.server.listener import HttpServer
from ctrlhost.status.writes import WriteLog
from tests.support.waiting import eventually


def test_a_process_that_hangs_is_not_waited_for_until_it_answers_again() -> None:
    free, requested = threading.Event(), threading.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            requested.set()
            await asyncio.to_thread(free.wait, 30)
            await PlainTextResponse("here")(scope, receive, send)

    with TemporaryDirectory() as directory:
        path = Path(directory) / "pages.sock"
        entries = SimpleNamespace(deadline=lambda _kind: 1.0)
        attempt: Any = SimpleNamespace(owner=SimpleNamespace(name="bad"), socket=path, entries=entries)
        view = ChildView("bad", attempt)
        answer: Any = Answer(attempt, "status", "/", bytes, b"")
        view._status = answer
        host: Any = SimpleNamespace(plugins=[], factory=None, client=None, writes=WriteLog())
        inspection: Any = SimpleNamespace(views=lambda: [view], children=None)
        reports = Reports(host, inspection)
        server = HttpServer(f"unix:{path}", app)
        server.start()
        try:
            free.set()
            (first,) = reports.begin_status()
            first.result(30)
            assert (answer.value, view.status_age()) == (b"here", 0.0)
            free.clear()
            requested.clear()
            (second,) = reports.begin_status()
            assert requested.wait(30)
            # The question takes too long, then ends without an answer, and is asked again.
            eventually(lambda: reports.begin_status() == [], 30, "a page that does not wait")
            second.result(30)
            assert reports.begin_status() == []
            assert view.status_age() > 0
            free.set()
            eventually(reports.begin_status, 30, "an answer")
            eventually(lambda: view.status_age() == 0.0, 30, "an answer that is current")
        finally:
            free.set()
            assert server.stop(10)
