"""Forward a local port to one of a pod: each connection to it has a WebSocket of its own."""

from __future__ import annotations

import logging
import socket
import socketserver
import threading
from contextlib import closing, suppress
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import TYPE_CHECKING

from ctrlhost.client.pod_channels import PIECE, WITHOUT_CLOSE, PodChannels
from ctrlhost.errors import CtrlhostError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from ctrlhost.transport.interface import HttpRequest, Transport

log = logging.getLogger("ctrlhost.client.port_forward")

_DATA, _ERROR = 0, 1
#: Bytes for a program that is behind, from which on the pod waits.
_MOST_UNREAD = 1024 * 1024
#: Seconds between two looks of the listener whether it is to end.
_POLL_INTERVAL = 0.05


class PortForward:
    """A port of 127.0.0.1 whose connections go to a pod. A context manager; threads of its own serve it."""

    def __init__(self, transport: Transport, request: HttpRequest, local_port: int) -> None:
        """Listen; see `Client.port_forward`."""
        self._transport, self._request = transport, request
        self._lock = threading.Lock()
        self._closed = False
        self._open: set[socket.socket] = set()
        # The first connection is opened before anybody asks for one, so that a refusal reaches the caller.
        self._first: PodChannels | None = PodChannels(transport, request, (WITHOUT_CLOSE,))
        try:
            self._server = _Server(self, local_port)
        except BaseException:
            self._first.close()
            raise
        self.local_port: int = self._server.server_address[1]
        """The port to connect to."""
        serve = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(_POLL_INTERVAL,), name="port forward", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Stop listening and end all connections. Callable repeatedly and from any thread."""
        with self._lock:
            if self._closed:
                return
            self._closed, unused, self._first = True, self._first, None
            for local in self._open:
                with suppress(OSError):
                    local.shutdown(socket.SHUT_RDWR)
        if unused is not None:
            unused.close()
        self._server.shutdown()
        # Waits for the connections.
        self._server.server_close()

    def serve(self, local: socket.socket) -> None:
        """Forward one connection; called in a thread of its own."""
        with self._lock:
            if self._closed:
                return
            channels, self._first = self._first, None
            self._open.add(local)
        try:
            with closing(channels or PodChannels(self._transport, self._request, (WITHOUT_CLOSE,))) as channels:
                _forward(channels, local, self._request.what)
        except CtrlhostError as error:
            log.warning("a forwarded connection ended: %s", error)
        except OSError:
            # The program has dropped its connection.
            log.debug("the local end of a forwarded connection was dropped", exc_info=True)
        finally:
            with self._lock:
                self._open.discard(local)


class _Server(socketserver.ThreadingTCPServer):
    """The listener, with a thread for each connection, for which its end waits."""

    allow_reuse_address = True

    def __init__(self, forward: PortForward, port: int) -> None:
        self.forward = forward
        super().__init__(("127.0.0.1", port), _Handler)


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        self.server.forward.serve(self.request)


def _forward(channels: PodChannels, local: socket.socket, what: str) -> None:
    """Copy in both directions until one side ends."""
    to_pod, to_local, started = b"", b"", set[int]()
    local.setblocking(False)
    with DefaultSelector() as selector:
        while True:
            from_pod = EVENT_READ if len(to_local) < _MOST_UNREAD else 0
            pod = from_pod | (EVENT_WRITE if to_pod else 0)
            program = (0 if to_pod else EVENT_READ) | (EVENT_WRITE if to_local else 0)
            pod, program = _ready(selector, channels, pod, local, program)
            if pod & EVENT_WRITE:
                channels.send(_DATA, to_pod)
                to_pod = b""
            if pod & EVENT_READ:
                message = channels.receive()
                if message is None:
                    break
                channel, data = message
                if channel in (_DATA, _ERROR) and channel not in started:
                    # The first message of each channel is the number of the port.
                    started.add(channel)
                elif channel == _ERROR:
                    log.warning("%s: %s", what, data.decode("utf-8", "replace"))
                    break
                elif channel == _DATA:
                    to_local += data
            if program & EVENT_WRITE:
                to_local = to_local[local.send(to_local) :]
            if program & EVENT_READ:
                to_pod = local.recv(PIECE)
                if not to_pod:
                    return
    local.setblocking(True)
    local.sendall(to_local)


def _ready(
    selector: DefaultSelector, channels: PodChannels, pod: int, local: socket.socket, program: int
) -> tuple[int, int]:
    """Wait until one end is ready for what is wanted of it; return for what each is."""
    registered = selector.get_map()
    for end, wanted in ((channels, pod), (local, program)):
        if end in registered:
            selector.unregister(end)
        if wanted:
            selector.register(end, wanted)
    at_hand = pod & EVENT_READ if channels.pending else 0
    events = {key.fileobj: ready for key, ready in selector.select(0 if at_hand else None)}
    return events.get(channels, 0) | at_hand, events.get(local, 0)
