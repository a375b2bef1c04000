"""Run a command in a container, until it ends."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost.client.pod_channels import PIECE, WITH_CLOSE, WITHOUT_CLOSE, PodChannels
from ctrlhost.errors import TransportError
from ctrlhost.transport.responses import error_from_status

if TYPE_CHECKING:
    from ctrlhost.transport.interface import HttpRequest, Transport

_STDIN, _STDOUT, _STDERR, _STATUS = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What a command in a container has written, and its exit code."""

    exit_code: int
    stdout: bytes
    stderr: bytes


def run(transport: Transport, request: HttpRequest, stdin: bytes | None) -> ExecResult:
    """Run the command of a request, which may take the request's timeout; see `Client.exec`."""
    deadline = time.monotonic() + request.timeout
    # Without the signal that it ends, a command would wait for more input.
    protocols = (WITH_CLOSE,) if stdin is not None else (WITH_CLOSE, WITHOUT_CLOSE)
    outputs: dict[int, list[bytes]] = {_STDOUT: [], _STDERR: [], _STATUS: []}
    with closing(PodChannels(transport, request, protocols)) as channels, DefaultSelector() as selector:
        left = None if stdin is None else memoryview(stdin)
        selector.register(channels, EVENT_READ)
        while not outputs[_STATUS]:
            readable, writable = channels.pending, False
            if not readable:
                selector.modify(channels, EVENT_READ if left is None else EVENT_READ | EVENT_WRITE)
                events = selector.select(max(deadline - time.monotonic(), 0.0))
                if not events:
                    raise TransportError(f"{request.what}: the command did not end within {request.timeout:g} s")
                readable, writable = bool(events[0][1] & EVENT_READ), bool(events[0][1] & EVENT_WRITE)
            if writable and left is not None:
                left = _feed(channels, left)
            if readable:
                message = channels.receive()
                if message is None:
                    raise TransportError(f"{request.what}: the connection to the pod ended before the command")
                outputs.get(message[0], []).append(message[1])
    exit_code = _exit_code(b"".join(outputs[_STATUS]), request.what)
    return ExecResult(exit_code, b"".join(outputs[_STDOUT]), b"".join(outputs[_STDERR]))


def _feed(channels: PodChannels, left: memoryview) -> memoryview | None:
    """Send the next piece of the input; return what is left, None after its end."""
    if not left:
        channels.close_channel(_STDIN)
        return None
    channels.send(_STDIN, bytes(left[:PIECE]))
    return left[PIECE:]


def _exit_code(text: bytes, what: str) -> int:
    """Return the exit code that a `Status` says; ApiError if the command did not run."""
    try:
        status: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = None
    if not isinstance(status, dict):
        raise TransportError(f"{what}: the server sent no status of the command")
    if status.get("status") == "Success":
        return 0
    causes = (status.get("details") or {}).get("causes") or ()
    codes = [cause.get("message", "") for cause in causes if cause.get("reason") == "ExitCode"]
    if codes and codes[0].isdigit():
        return int(codes[0])
    raise error_from_status({"code": 500, **status})
