"""The admin API in front of an action that hangs, fails, or never comes."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from ctrlhost.server import admin
from ctrlhost.server.peers import Peer

SCOPE = {"type": "http", "method": "POST", "path": "/admin/v1/pause", "headers": [], "state": {"peer": Peer(7, 9)}}


class Acting:
    on = True

    def __init__(self) -> None:
        self.release = threading.Event()

    def target(self, action: str, body: bytes) -> str:
        return body.decode()

    def act(self, action: str, body: bytes, by: str) -> tuple[int, bytes]:
        if body == b"fails":
            raise KeyError("on purpose")
        assert self.release.wait(30)
        return 200, json.dumps([action, body.decode(), by]).encode()


async def ask(app: Any, *pieces: bytes, leaves: bool = False) -> tuple[int, Any]:
    """Return the status and the JSON of an answer; the request has no end without pieces."""
    sent: list[dict[str, Any]] = []
    left = list(pieces)

    async def receive() -> dict[str, Any]:
        if not left and leaves:
            return {"type": "http.disconnect"}
        if not left:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or leaves}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(SCOPE, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [
        (record.levelname, record.getMessage())
        for record in caplog.records
        if record.getMessage().startswith("admin: ")
    ]


def test_an_action_that_hangs_is_answered_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(admin, "_WAIT", 0.05)
    monkeypatch.setattr(admin, "_MOST", 1)
    acting = Acting()

    async def run() -> list[tuple[int, Any]]:
        app = admin.admin_app(acting)
        answers = [await ask(app, b"a"), await ask(app, b"b")]
        acting.release.set()
        while True:
            last = await ask(app, b"in ", b"pieces")
            if last[0] != 503:
                return [*answers, last]
            await asyncio.sleep(0.01)

    hung, beside, last = asyncio.run(run())
    assert hung == (504, {"error": "no answer within 0.05 s", "hint": "`/readyz?verbose` names what hangs"})
    assert beside == (503, {"error": "too many requests at once", "hint": "try again in a second"})
    assert last == (200, ["pause", "in pieces", "uid 7 pid 9"])
    records = lines(caplog)
    assert records[0] == ("WARNING", "admin: pause a by uid 7 pid 9: 504 no answer within 0.05 s")
    assert records[1] == ("WARNING", "admin: pause b by uid 7 pid 9: 503 too many requests at once")
    assert records[-1] == ("INFO", "admin: pause in pieces by uid 7 pid 9: ok")


def test_a_body_that_does_not_come_and_an_action_that_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(admin, "_BODY", 0.01)
    app = admin.admin_app(Acting())
    assert asyncio.run(ask(app))[0] == 408
    assert asyncio.run(ask(app, b"half", leaves=True)) == (
        400,
        {"error": "the client left before the end of the body", "hint": None},
    )
    with pytest.raises(KeyError):
        asyncio.run(ask(app, b"fails"))
    assert lines(caplog) == [
        ("WARNING", "admin: pause by uid 7 pid 9: 408 the body did not come in time"),
        ("WARNING", "admin: pause by uid 7 pid 9: 400 the client left before the end of the body"),
        ("WARNING", "admin: pause fails by uid 7 pid 9: 500 not answered"),
    ]
