"""The host that a command attaches to: which one, and what its answers and failures mean."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ctrlhost.cli import running_host
from ctrlhost.cli.running_host import RunningHost, parse_controller
from ctrlhost.errors import ConfigError, CtrlhostError


class Answers(ThreadingHTTPServer):
    """A server that gives one answer to everything."""

    status = 200
    body = b"{}"

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, bytes]] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Answers

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.command, self.path, body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def answers() -> Iterator[Answers]:
    with Answers() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    with TemporaryDirectory(prefix="run-") as directory:
        yield Path(directory)


def listening(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener


def problem(error: str, hint: str | None = None, **more: Any) -> bytes:
    return json.dumps({"error": error, "hint": hint, **more}).encode()


def test_a_question_and_an_action_are_sent_to_their_paths(answers: Answers) -> None:
    answers.body = b'{ "a" :1}'
    host = RunningHost(f"{answers.url}/base/")
    assert host.get("/status") == b'{ "a" :1}'
    assert host.status() == {"a": 1}
    host.act("pause", {"plugin": "naming"})
    assert answers.asked == [
        ("GET", "/base/api/v1/status", b""),
        ("GET", "/base/api/v1/status", b""),
        ("POST", "/base/admin/v1/pause", b'{"plugin": "naming"}'),
    ]


@pytest.mark.parametrize(
    ("status", "body", "usage"),
    [
        (400, problem("invalid cursor `x`", "use `next`"), True),
        (404, problem("no controller `a/b`", "did you mean `a/c`?"), True),
        (404, problem("no such path"), False),
        (404, problem("the admin API is off", "start the host with `--admin`", off=True), False),
        (401, problem("no token"), False),
        (403, problem("only for clients on this machine"), False),
        (409, problem("this replica does not lead", "ask b"), False),
        (413, problem("the body is too long"), False),
        (503, problem("too many requests at once"), False),
    ],
)
def test_each_refusal_has_an_exit_code(answers: Answers, status: int, body: bytes, usage: bool) -> None:
    answers.status, answers.body = status, body
    with pytest.raises(CtrlhostError) as caught:
        RunningHost(answers.url).get("/status")
    assert isinstance(caught.value, ConfigError) is usage
    assert {"error": caught.value.message, "hint": caught.value.hint}.items() <= json.loads(body).items()


@pytest.mark.behaviour("operations/OP49")
def test_an_error_of_a_host_is_text(answers: Answers) -> None:
    answers.status, answers.body = 404, problem("no plugin `\x1b[2J`", "did you\nmean \x9b?")
    with pytest.raises(ConfigError) as caught:
        RunningHost(answers.url).get("/status")
    assert (caught.value.message, caught.value.hint) == (r"no plugin `\x1b[2J`", r"did you\nmean \x9b?")


@pytest.mark.parametrize(
    ("status", "body", "named"),
    [(404, b"no page at /api/v1/status\n", " with the status 404"), (500, b"[]", "500"), (200, b"<html>", "")],
)
def test_what_is_no_host_is_named(answers: Answers, status: int, body: bytes, named: str) -> None:
    answers.status, answers.body = status, body
    with pytest.raises(CtrlhostError, match=f"what answers at {answers.url}.*{named}.* is not the status") as caught:
        RunningHost(answers.url).status()
    assert not isinstance(caught.value, ConfigError)
    assert caught.value.hint


def test_what_speaks_no_http_is_named(folder: Path) -> None:
    with listening(folder / "1.sock") as server:

        def greet() -> None:
            client, _ = server.accept()
            with client:
                client.recv(1000)
                client.sendall(b"220 mail\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(CtrlhostError, match="is not the status of a ctrlhost"):
            RunningHost(path=folder / "1.sock").get("/status")
        thread.join()


def test_a_host_that_does_not_answer_is_not_waited_for_without_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_host, "_READ", 0.05)
    with listening(folder / "1.sock"), pytest.raises(CtrlhostError, match="did not answer within") as caught:
        RunningHost(path=folder / "1.sock").get("/status")
    assert "SIGUSR1" in caught.value.hint


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1:1", "127.0.0.1:8484", "http://", "http://a:99999", "http://me@a", "http://a/?b", ""]
)
def test_another_kind_of_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="--url: invalid address") as caught:
        RunningHost(url)
    assert caught.value.hint == "write it as `http://127.0.0.1:8484`"


def test_two_targets_are_refused() -> None:
    with pytest.raises(ConfigError, match="--url and --socket"):
        RunningHost("http://127.0.0.1:1", Path("/x"))


@pytest.mark.parametrize("name", ["naming", "/names", "naming/", ""])
def test_a_controller_has_two_names(name: str) -> None:
    with pytest.raises(ConfigError, match="no controller") as caught:
        parse_controller(name)
    assert caught.value.hint == "controllers are named `PLUGIN/NAME`"
    assert parse_controller("a b/c/d?") == "a%20b/c%2Fd%3F"


@pytest.mark.behaviour("operations/OP90")
def test_the_only_socket_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    place = folder / "ctrlhost"
    with pytest.raises(CtrlhostError, match=f"no host runs that has its socket in {place}") as caught:
        RunningHost()
    assert not isinstance(caught.value, ConfigError)
    place.mkdir(mode=0o700)
    # Of a killed host, and what is no socket.
    listening(place / "1.sock").close()
    (place / "2.sock").touch()
    with pytest.raises(CtrlhostError, match="no host runs"):
        RunningHost()
    with listening(place / "3.sock"):
        assert RunningHost().name == str(place / "3.sock")
        with listening(place / "4-1.sock"), pytest.raises(ConfigError) as both:
            RunningHost()
    assert both.value.message == f"2 hosts of this user run: {place}/3.sock, {place}/4-1.sock"
    assert both.value.hint == "choose one with `--socket PATH`"


def test_a_directory_that_others_may_write_to_is_not_looked_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    (folder / "ctrlhost").mkdir()
    (folder / "ctrlhost").chmod(0o777)
    with listening(folder / "ctrlhost" / "1.sock"), pytest.raises(CtrlhostError, match="no host runs"):
        RunningHost()
