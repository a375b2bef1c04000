"""`exec` and `portforward` of the simulated kubelet, over WebSockets.

Containers run nothing: a few programs answer, and the declared ports send back what they receive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ctrlhost_sandbox.http.channel import chunk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.http.channel import Channel
    from ctrlhost_sandbox.registry.operation import Operation
    from ctrlhost_sandbox.storage.store import Event

    Write = Callable[[int, bytes], None]
    End = Callable[[], None]

_STDIN, _STDOUT, _STDERR, _ERROR, _CLOSE = 0, 1, 2, 3, 255
_WITH_CLOSE, _WITHOUT_CLOSE = "v5.channel.k8s.io", "v4.channel.k8s.io"


class Session(Protocol):
    """What is at the pod's end of a connection."""

    protocols: tuple[str, ...]

    def begin(self, write: Write, end: End) -> None:
        """Called once the client is connected. `write` sends data on a channel, `end` closes the connection."""

    def receive(self, channel: int, data: bytes) -> None:
        """Called with what the client sends."""


class PodConnection:
    """A WebSocket to a pod, until the session ends or the pod is gone."""

    content_type = "application/octet-stream"

    def __init__(self, context: ServerContext, operation: Operation, session: Session) -> None:
        """Connect to the session; it begins with `opened`."""
        self.headers: list[tuple[str, str]] = []
        self.protocols = session.protocols
        self._table = context.store.table(operation.kind.table)
        self._key = operation.namespace, operation.name
        self._session = session
        self._channel: Channel | None = None

    def opened(self, channel: Channel) -> None:
        """Begin the session, and follow the pod."""
        self._channel = channel
        self._table.watchers[self._event] = None
        self._session.begin(lambda number, data: channel.send(chunk(bytes((number,)) + data)), channel.end)

    def receive(self, message: bytes) -> None:
        """Pass a message of the client to the session: its first byte is the channel."""
        if message and self._channel is not None:
            self._session.receive(message[0], message[1:])

    def closed(self) -> None:
        """Stop following."""
        self._table.watchers.pop(self._event, None)
        self._channel = None

    def _event(self, event: Event) -> None:
        if self._channel is not None and event.latest.key == self._key and event.new is None:
            self._channel.end()


class Exec:
    """A program: `true`, `false`, `echo WORD…`, or `cat`, for which every file is missing."""

    protocols: tuple[str, ...] = (_WITH_CLOSE, _WITHOUT_CLOSE)

    def __init__(self, command: Sequence[str], *, stdin: bool) -> None:
        """Run `command`, which may read what the client sends if `stdin` is set."""
        self._program, *self._arguments = command
        self._stdin = stdin
        self._write: Write = lambda _channel, _data: None
        self._end: End = lambda: None
        self._reads = False

    def begin(self, write: Write, end: End) -> None:
        """Run the program; `cat` reads until the client closes its input."""
        self._write, self._end = write, end
        arguments = self._arguments
        if self._program == "echo":
            write(_STDOUT, " ".join(arguments).encode() + b"\n")
        if self._program in ("true", "echo"):
            self._exit(0)
        elif self._program == "false":
            self._exit(1)
        elif self._program != "cat":
            self._finish(_not_executable(self._program))
        elif arguments:
            write(_STDERR, "".join(f"cat: {file}: No such file or directory\n" for file in arguments).encode())
            self._exit(1)
        elif not self._stdin:
            self._exit(0)
        else:
            self._reads = True

    def receive(self, channel: int, data: bytes) -> None:
        """Copy the input to the output; end with it."""
        if not self._reads:
            return
        if channel == _STDIN:
            self._write(_STDOUT, data)
        elif channel == _CLOSE and data == bytes((_STDIN,)):
            self._exit(0)

    def _exit(self, code: int) -> None:
        """End with an exit code."""
        if code == 0:
            self._finish({"metadata": {}, "status": "Success"})
        else:
            message = f"command terminated with non-zero exit code: command terminated with exit code {code}"
            causes = [{"reason": "ExitCode", "message": str(code)}]
            failure = {"metadata": {}, "status": "Failure", "message": message, "reason": "NonZeroExitCode"}
            self._finish({**failure, "details": {"causes": causes}})

    def _finish(self, status: dict[str, Any]) -> None:
        self._reads = False
        self._write(_ERROR, msgspec.json.encode(status))
        self._end()


class PortForward:
    """Connections to ports of a pod. A declared one sends back what it receives; no other accepts a connection."""

    protocols: tuple[str, ...] = (_WITHOUT_CLOSE,)

    def __init__(self, pod: Object, ports: Sequence[int]) -> None:
        """Connect to these ports."""
        self._pod, self._ports = pod, ports
        declared = (port for container in pod["spec"]["containers"] for port in container.get("ports") or ())
        self._open = {port["containerPort"] for port in declared}
        self._write: Write = lambda _channel, _data: None

    def begin(self, write: Write, end: End) -> None:
        """Send the number of each port on its two channels, and say which of them is closed."""
        self._write = write
        for index, port in enumerate(self._ports):
            for channel in (2 * index, 2 * index + 1):
                write(channel, port.to_bytes(2, "little"))
            if port not in self._open:
                metadata = self._pod["metadata"]
                text = f"error forwarding port {port} to pod {metadata['name']}, uid : connection refused"
                write(2 * index + 1, text.encode())

    def receive(self, channel: int, data: bytes) -> None:
        """Send the data back."""
        index, of_errors = divmod(channel, 2)
        if not of_errors and index < len(self._ports) and self._ports[index] in self._open:
            self._write(channel, data)


def _not_executable(program: str) -> dict[str, Any]:
    """Return the failure of a runtime that does not find a program."""
    message = f'Internal error occurred: error executing command in container: exec: "{program}": '
    message += "executable file not found in $PATH"
    return {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500}
