"""Fake daemons that keep only a list of added nodes, for tests and demos.

A `FakeDaemon` answers like a real one, unless a script says otherwise. `FakeDaemons` serves many of them on loopback
addresses; `FakeHttp` calls them without sockets, for addresses that this machine does not have.
"""

from __future__ import annotations

import base64
import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from ctrlhost_bitcoin.rpc import errors
from ctrlhost_bitcoin.rpc.http import HttpAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PORT = 18332


@dataclass(frozen=True)
class Reply:
    """Send this answer to any request."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Fails:
    """Answer with an error of the daemon's; `legacy` in the form of version 1.0, with a status."""

    code: int
    message: str = "scripted"
    legacy: bool = False


@dataclass(frozen=True)
class Raw:
    """Send these bytes instead of an answer, the pieces `pause` seconds apart, and close the connection."""

    pieces: tuple[bytes, ...] = ()
    pause: float = 0.0


@dataclass(frozen=True)
class Slow:
    """Answer late, but as usual."""

    seconds: float


@dataclass(frozen=True)
class Silent:
    """Never answer."""


Behaviour: TypeAlias = Reply | Fails | Raw | Slow | Silent


@dataclass(frozen=True)
class Call:
    """A call as received."""

    method: str
    params: Any
    content: dict[str, Any]
    headers: Mapping[str, str]


@dataclass
class _Scripted:
    behaviour: Behaviour
    method: str | None
    times: int | None


class FakeDaemon:
    """One fake daemon. The test's thread may read and change its state at any time."""

    def __init__(
        self,
        host: str,
        port: int = PORT,
        *,
        user: str = "user",
        password: str = "password",
        dials: bool = True,
    ) -> None:
        """Create a fake daemon with this address and these credentials."""
        self.host, self.port = host, port
        self.user, self.password = user, password
        self.dials = dials
        """Whether it connects added nodes by itself; if not, only after `onetry`."""
        self.added: list[str] = []
        self.links: set[str] = set()
        self.calls: list[Call] = []
        self.logins_refused = 0
        self.reaches: Callable[[str], bool] = lambda _: True
        """Whether a node can be connected; `FakeDaemons` and `FakeHttp` look for a daemon of theirs there."""
        self._scripts: list[_Scripted] = []
        self._lock = threading.Lock()

    def script(self, behaviour: Behaviour, method: str | None = None, *, times: int | None = None) -> None:
        """Change the answers to the next calls of a method, or of any; `times` limits their number."""
        with self._lock:
            self._scripts.append(_Scripted(behaviour, method, times))

    def behave(self) -> None:
        """Remove all scripts."""
        with self._lock:
            self._scripts.clear()

    def forget(self) -> None:
        """Clear the list and the links, like a restart of the daemon."""
        with self._lock:
            self.added.clear()
            self.links.clear()

    def called(self, method: str | None = None) -> list[Any]:
        """Return the parameters of all calls of a method, or the methods of all calls, oldest first."""
        with self._lock:
            if method is None:
                return [call.method for call in self.calls]
            return [call.params for call in self.calls if call.method == method]

    def handle(self, body: bytes, headers: Mapping[str, str], *, late: bool = False) -> Reply | Raw | Slow | Silent:
        """Answer a request; after `Slow`, which comes first only, call it again with `late`."""
        with self._lock:
            wanted = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
            if headers.get("authorization") != f"Basic {wanted}":
                self.logins_refused += 1
                return Reply(401, b"", {"WWW-Authenticate": 'Basic realm="jsonrpc"'})
            content = json.loads(body)
            many = content if isinstance(content, list) else [content]
            script = self._next_script({call["method"] for call in many}, late)
            if isinstance(script, Slow):
                return script
            self.calls += [Call(call["method"], call.get("params"), call, dict(headers)) for call in many]
            if script is not None and not isinstance(script, Fails):
                return script
            answers = [self._answer(call, script) for call in many]
        if isinstance(content, list):
            return Reply(200, json.dumps(answers).encode() + b"\n")
        status = 500 if script is not None and script.legacy else 200
        return Reply(status, json.dumps(answers[0]).encode() + b"\n")

    def _next_script(self, methods: set[str], late: bool) -> Behaviour | None:
        for script in self._scripts:
            if (script.method is None or script.method in methods) and not (
                late and isinstance(script.behaviour, Slow)
            ):
                if script.times is not None:
                    script.times -= 1
                    if script.times <= 0:
                        self._scripts.remove(script)
                return script.behaviour
        return None

    def _answer(self, call: dict[str, Any], fails: Fails | None) -> dict[str, Any]:
        if fails is not None:
            error = {"code": fails.code, "message": fails.message}
            version = {"result": None} if fails.legacy else {"jsonrpc": "2.0"}
            return {**version, "error": error, "id": call["id"]}
        try:
            return {"jsonrpc": "2.0", "result": self._run(call["method"], call["params"]), "id": call["id"]}
        except errors.RpcError as error:
            return {"jsonrpc": "2.0", "error": {"code": error.code, "message": error.message}, "id": call["id"]}

    def _run(self, method: str, params: list[Any]) -> Any:
        if method == "getaddednodeinfo":
            return [self._info(node) for node in self.added]
        if method == "addnode":
            return self._addnode(*params)
        if method == "disconnectnode":
            if params[0] not in self.links:
                raise errors.RpcError(errors.NOT_CONNECTED, "Node not found in connected nodes")
            self.links.discard(params[0])
            return None
        if method == "getnetworkinfo":
            return {"version": 290403, "networkactive": True, "connections": len(self.links)}
        if method == "getpeerinfo":
            return None
        raise errors.RpcError(errors.METHOD_NOT_FOUND, "Method not found")

    def _info(self, node: str) -> dict[str, Any]:
        addresses = [{"address": f"{node}:18444", "connected": "outbound"}] if node in self.links else []
        return {"addednode": node, "connected": node in self.links, "addresses": addresses}

    def _addnode(self, node: str, command: str) -> None:
        if command == "add":
            if node in self.added:
                raise errors.RpcError(errors.ALREADY_ADDED, "Error: Node already added")
            self.added.append(node)
        elif command == "remove":
            if node not in self.added:
                raise errors.RpcError(
                    errors.NOT_ADDED, "Error: Node could not be removed. It has not been added previously."
                )
            # The connection stays, as with a real daemon.
            self.added.remove(node)
        if (command == "onetry" or (command == "add" and self.dials)) and self.reaches(node):
            self.links.add(node)


class FakeHttp:
    """An `HttpLayer` that calls the daemons of a dictionary instead of a network; a missing host refuses."""

    def __init__(self, *daemons: FakeDaemon) -> None:
        """Call these."""
        self.daemons = {daemon.host: daemon for daemon in daemons}
        for daemon in daemons:
            daemon.reaches = lambda node: node in self.daemons

    def post(
        self,
        host: str,
        port: int,
        body: bytes,
        headers: Mapping[str, str],
        *,
        connect: float,  # noqa: ARG002 - the protocol's
        answer: float,
    ) -> HttpAnswer:
        """Return the daemon's answer."""
        daemon = self.daemons.get(host)
        if daemon is None or daemon.port != port:
            raise errors.Refused("no connection: refused")
        small = {name.lower(): value for name, value in headers.items()}
        reply = daemon.handle(body, small)
        if isinstance(reply, Slow):
            if reply.seconds > answer:
                raise errors.Timeout(f"no answer within {answer:g} s")
            reply = daemon.handle(body, small, late=True)
        if isinstance(reply, Silent):
            raise errors.Timeout(f"no answer within {answer:g} s")
        if not isinstance(reply, Reply):
            raise errors.Protocol("the answer is not HTTP")
        return HttpAnswer(reply.status, reply.body)

    def close(self) -> None:
        """Do nothing, since no connection is open."""
