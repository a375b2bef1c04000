"""What the admin API refuses, and its lines of the log."""

from __future__ import annotations

import json
import os
from typing import Any, cast

import pytest

from ctrlhost.host.admin import Admin
from ctrlhost.host.state import HostState
from tests.host.test_listeners import ask
from tests.support.admin import Acting, act, done, send, socket_of
from tests.support.status import status_of

behaviour = pytest.mark.behaviour

REFUSED: list[tuple[str, Any, int, str, str | None]] = [
    ("pause", b'{"plugin": "' + b"x" * (65 << 10) + b'"}', 413, "the body is longer than 65536 bytes", None),
    ("pause", b"plugin=inside", 400, "the body is not JSON: ", None),
    ("pause", b'["inside"]', 400, "the body is no JSON object", None),
    ("pause", {"plugni": "inside"}, 400, "unknown field `plugni`", "did you mean `plugin`?"),
    ("pause", {"plugin": 1}, 400, "invalid request: Expected `str`, got `int` - at `$.plugin`", None),
    ("pause", {}, 400, "invalid request: Object missing required field `plugin`", None),
    ("resume", {"plugin": "insde"}, 404, "no plugin `insde`", "did you mean `inside`?"),
    ("pause", {"plugin": "inside", "controller": "z"}, 404, "no controller `inside/z`", "did you mean `inside/"),
    ("pause", {"plugin": "apart", "controller": "fre"}, 404, "no controller `apart/fre`", "did you mean `apart/free`?"),
    ("paus", {"plugin": "inside"}, 404, "no action `paus`", "did you mean `pause`?"),
    (
        "enqueue",
        {"controller": "inside/fre", "keys": ["k"]},
        404,
        "no controller `inside/fre`",
        "did you mean `inside/free`?",
    ),
    (
        "enqueue",
        {"controller": "insid/free", "keys": ["k"]},
        404,
        "no controller `insid/free`",
        "did you mean `inside/free`?",
    ),
    ("enqueue", {"controller": "inside", "keys": ["k"]}, 404, "no controller `inside`", "did you mean `inside/"),
    ("enqueue", {"controller": "inside/a"}, 400, "invalid request: give either `keys` or `all`", None),
    ("enqueue", {"controller": "inside/a", "keys": ["k"], "all": True}, 400, "invalid request: give either", None),
    ("enqueue", {"controller": "inside/a", "keys": [""]}, 400, "invalid request: a key is empty", None),
    (
        "enqueue",
        {"controller": "inside/a", "keys": ["a/b/c/d"]},
        400,
        "invalid key `a/b/c/d`",
        "write it as NAMESPACE/NAME",
    ),
    (
        "enqueue",
        {"controller": "inside/a", "all": True, "priority": 1 << 31},
        400,
        "invalid request: invalid priority 2147483648",
        None,
    ),
    (
        "log-level",
        {"target": "insde", "level": "debug"},
        404,
        "no plugin and no logger `insde`",
        "did you mean `inside`?",
    ),
    ("log-level", {"level": "debgu"}, 400, "no level `debgu`", "did you mean `debug`?"),
    ("log-level", {"level": "debug", "seconds": -1}, 400, "invalid request: invalid time: -1 s", None),
]


@behaviour("operations/OP42")
@behaviour("operations/OP43")
@pytest.mark.parametrize(("action", "body", "status", "error", "hint"), REFUSED)
def test_what_is_refused_changes_nothing_and_is_logged(
    shared: Acting, action: str, body: Any, status: int, error: str, hint: str | None
) -> None:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    before = len(shared.host.lines)
    code, answer = send(socket_of(shared.host), action, sent)
    assert code == status
    assert answer["error"].startswith(error)
    assert (answer["hint"] or "").startswith(hint or "")
    assert (answer["hint"] is None) == (hint is None)
    line = shared.host.line(
        f"admin: {action} ", f" by uid {os.geteuid()} pid {os.getpid()}: {status} {error}", after=before
    )
    assert line["level"] == "warning"
    assert "\n" not in line["msg"]
    if status == 404 and action != "paus":
        assert answer["error"].split("`")[1] in line["msg"]
    assert not [controller["name"] for controller in status_of(shared.host)["controllers"] if controller["paused"]]


@behaviour("operations/OP42")
@pytest.mark.parametrize(
    ("headers", "method", "body", "status", "error"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, "POST", b"", 403, "requests of other sites are refused"),
        # Only announced: a client that still sends when the host closes may not get to read the answer.
        ({"Content-Length": "2"}, "GET", b"", 413, "a GET request has no body"),
    ],
)
def test_what_the_listener_refuses_is_logged(
    shared: Acting, headers: dict[str, str], method: str, body: bytes, status: int, error: str
) -> None:
    before = len(shared.host.lines)
    code, answer = send(socket_of(shared.host), "pause", body, method, headers=headers)
    assert (code, answer["error"]) == (status, error)
    by = f"uid {os.geteuid()} pid {os.getpid()}"
    assert shared.host.line(f"admin: pause by {by}: {status} {error}", after=before)["level"] == "warning"
    assert not [controller["name"] for controller in status_of(shared.host)["controllers"] if controller["paused"]]


@behaviour("operations/OP42")
def test_a_level_of_the_log_does_not_hide_what_changes_the_host(shared: Acting) -> None:
    quiet: list[dict[str, Any]] = [{}, {"target": "ctrlhost.host"}, {"target": "ctrlhost"}]
    status, answer = act(shared.host, "log-level", target="ctrlhost.admin", level="error")
    assert (status, answer["error"]) == (404, "the level of `ctrlhost.admin` is fixed")
    try:
        for target in quiet:
            done(shared.host, "log-level", level="error", seconds=0, **target)
        before = len(shared.host.lines)
        done(shared.host, "pause", plugin="inside", controller="c")
        done(shared.host, "resume", plugin="inside", controller="c")
        for action in ("pause", "resume"):
            line = shared.host.line(f"admin: {action} inside/c by uid ", ": ok", after=before)
            assert (line["level"], line["logger"]) == ("info", "ctrlhost.admin")
    finally:
        for target in quiet:
            done(shared.host, "log-level", level="info", seconds=0, **target)


def test_only_post_is_answered(shared: Acting) -> None:
    path = socket_of(shared.host)
    for method in ("GET", "PUT", "DELETE"):
        status, answer = send(path, "pause", b"", method)
        assert (status, answer["error"], answer["hint"]) == (405, "no such method", "use POST")
    for prefix in ("/admin/", "/admin/v2/"):
        status, answer = send(path, "pause", b'{"plugin": "inside"}', prefix=prefix)
        assert (status, answer["error"]) == (404, f"no action `{prefix}pause`")


def test_text_of_a_client_cannot_forge_a_line(shared: Acting) -> None:
    name = "a\nadmin: pause inside by uid 0 pid 1: ok\x1b[31m"
    status, _ = act(shared.host, "pause", plugin=name)
    assert status == 404
    line = shared.host.line("admin: pause a admin: pause inside by uid 0 pid 1: ok [31m by uid ")
    assert line["level"] == "warning"


@behaviour("operations/OP36")
def test_other_listeners_have_no_admin_api(shared: Acting) -> None:
    for body in ({}, {"content_length": "20"}):
        status, headers, text = ask(shared.host.address, "/admin/v1/pause", "POST", **body)
        assert (status, headers["content-type"]) == (404, "application/json")
        assert json.loads(text)["error"] == "the admin API is served at the local socket only"


def test_an_action_that_raises_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    """The host of an isolated plugin would wait for the answer of its process."""

    class Broken:
        @property
        def plugins(self) -> list[Any]:
            raise KeyError("on purpose")

    status, body = Admin(cast(HostState, Broken())).act("pause", b'{"plugin": "demo"}', "a test")
    assert (status, json.loads(body)["error"]) == (500, "the host failed to act: KeyError")
    assert "the request `pause` failed" in caplog.text
