"""HTTP/1.1 on asyncio: one protocol object per connection, requests answered in the loop's own thread.

The store is in memory, so a response takes microseconds and needs no task of its own. Everything that a client
controls is bounded here: size and duration of headers and body, and the unread part of a response.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from ctrlhost_sandbox._native import RequestHead, RequestParser
from ctrlhost_sandbox.apimachinery import suspension
from ctrlhost_sandbox.apimachinery.status import Failure, bad_request
from ctrlhost_sandbox.http import websocket
from ctrlhost_sandbox.http.channel import Channel, joined
from ctrlhost_sandbox.http.messages import Conversation, Handler, NotYet, Query, Request, Response, Stream

if TYPE_CHECKING:
    from ctrlhost_sandbox.http.channel import Outbox

MAX_HEADERS = 64 * 1024
MAX_BODY = 3 * 1024 * 1024
MAX_CONNECTIONS = 1000
PIECE = 256 * 1024
MAX_UNREAD = 8 * 1024 * 1024
MAX_WAITING, MAX_WAITING_BYTES = 64, 1024 * 1024
MAX_DISCARDED = 64 * 1024 * 1024
LINGER_SECONDS = 2.0
HEADER_SECONDS, BODY_SECONDS, STALL_SECONDS = 10.0, 60.0, 30.0
_PHRASES = {int(status): status.phrase for status in HTTPStatus}


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, handler: Handler, connections: dict[Connection, None], outbox: Outbox) -> None:
        """Answer with `handler`; `connections` holds all open ones, oldest first; streams write through `outbox`."""
        self.loop = asyncio.get_running_loop()
        self._handler = handler
        self._connections = connections
        self._outbox = outbox
        self._parser = RequestParser()
        self._transport = cast("asyncio.Transport", None)
        self._certificate: dict[str, Any] = {}
        self._waiting: deque[tuple[Request, bool]] = deque()
        self._waiting_bytes = 0
        self._rest = memoryview(b"")
        self._busy = False
        self._stream: Stream | None = None
        self._channel: Channel | None = None
        self._frames: websocket.Frames | None = None
        self._keep_alive = True
        self._since = time.monotonic()
        self._phase = "idle"
        self._stalled: float | None = None
        self._reset()

    def _reset(self) -> None:
        self._head: RequestHead | None = None
        self._body: list[bytes] = []
        self._body_bytes = 0

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection; if there are too many, abort the one that has been idle longest."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=256 * 1024)
        if len(self._connections) >= MAX_CONNECTIONS:
            victim = next((other for other in self._connections if other.idle), None)
            if victim is None:
                self._transport.abort()
                return
            victim.abort()
        self._connections[self] = None
        self._certificate = transport.get_extra_info("peercert") or {}

    def connection_lost(self, _: Exception | None) -> None:
        """Unregister the connection and stop its stream."""
        self._connections.pop(self, None)
        self._rest = memoryview(b"")
        if self._channel is not None:
            self._channel.ended = True
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.closed()

    def data_received(self, data: bytes | memoryview) -> None:
        """Parse received bytes."""
        if self._phase == "refused":
            # The client finishes sending before it reads why it was refused.
            self._body_bytes += len(data)
            if self._body_bytes > MAX_DISCARDED:
                self.abort()
            return
        while data:
            if self._frames is not None:
                self._receive_frames(data)
                return
            data = self._parse(data)

    def _parse(self, data: bytes | memoryview) -> bytes:
        """Parse bytes; return those behind a request for another protocol, where the parser stops."""
        events, rest = self._parser.parse(bytes(data))
        try:
            for event in events:
                if event is None:
                    self._complete()
                elif isinstance(event, bytes):
                    self._collect(event)
                else:
                    self._begin(event)
        except Failure as failure:
            self._refuse(failure)
            return b""
        if self._parser.failed:
            self._refuse(bad_request("malformed HTTP request"))
        elif self._parser.pending > MAX_HEADERS:
            self._refuse(Failure(431, "RequestHeaderFieldsTooLarge", "the header block is larger than 64 KiB"))
        elif self._phase == "idle" and self._parser.pending:
            self._phase, self._since = "headers", time.monotonic()
        # Only an answer with 101 changes the protocol.
        return rest

    def pause_writing(self) -> None:
        """Called when the client stops reading; note the time."""
        self._stalled = time.monotonic()

    def resume_writing(self) -> None:
        """Called when the client reads again."""
        self._stalled = None
        # A transport that is closed within this call would lose its connection twice.
        self.loop.call_soon(self._resume)

    # requests

    def _begin(self, head: RequestHead) -> None:
        """Check the announced length of a request, and answer `Expect: 100-continue`."""
        self._head, self._phase, self._since = head, "body", time.monotonic()
        if int(head.headers.get("content-length", "0").partition(",")[0]) > MAX_BODY:
            raise _too_large()
        if head.headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _collect(self, body: bytes) -> None:
        """Collect the body, within its limit."""
        self._body_bytes += len(body)
        if self._body_bytes > MAX_BODY:
            raise _too_large()
        self._body.append(body)

    def _complete(self) -> None:
        """Answer the request, or queue it behind the response in flight."""
        head = self._head
        assert head is not None
        target = head.target.partition("#")[0]
        path, _, query = target.partition("?")
        request = Request(head.method, path, Query.parse(query), head.headers, b"".join(self._body), target)
        request.certificate = self._certificate
        self._reset()
        self._phase = "idle"
        # The connections are in the order of their last requests.
        self._connections[self] = self._connections.pop(self, None)
        self._waiting.append((request, head.keep_alive))
        self._waiting_bytes += len(request.body)
        if not self._busy:
            self._next()
        elif len(self._waiting) > MAX_WAITING or self._waiting_bytes > MAX_WAITING_BYTES:
            # Pipelined requests, for example behind a watch, must not accumulate.
            self._transport.pause_reading()

    # answers

    @property
    def idle(self) -> bool:
        """Return whether the connection is idle."""
        return not self._busy and self._phase in ("idle", "headers")

    def abort(self) -> None:
        """Abort the connection."""
        self._connections.pop(self, None)
        self._transport.abort()

    def shut(self) -> None:
        """End a running stream properly and close."""
        self._keep_alive = False
        if self._channel is not None and not self._channel.ended:
            self._channel.end()
        else:
            self._transport.close()

    def sweep(self, now: float) -> None:
        """Abort if a time-out is exceeded; called about once a second."""
        slow = {"headers": HEADER_SECONDS, "body": BODY_SECONDS}.get(self._phase)
        late = slow is not None and not self._busy and now - self._since > slow
        if late or (self._stalled is not None and now - self._stalled > STALL_SECONDS):
            self.abort()

    def write_chunks(self, chunks: list[bytes]) -> None:
        """Write chunks of a stream, or abort if the client has left too much unread."""
        self._write_stream(joined(chunks) if self._frames is None else self._frames.encode(chunks))

    def _write_stream(self, data: bytes) -> None:
        if self._stalled is not None and self._transport.get_write_buffer_size() > MAX_UNREAD:
            self.abort()
        elif not self._transport.is_closing():
            self._transport.write(data)

    def stream_ended(self) -> None:
        """Write the end of the stream and take the next request."""
        if self._frames is None:
            self._transport.write(b"0\r\n\r\n")
        elif not self._frames.closed:
            self._transport.write(self._frames.close())
        stream, self._stream, self._channel = self._stream, None, None
        if stream is not None:
            stream.closed()
        self._done()

    def _next(self) -> None:
        if self._waiting and not self._transport.is_closing():
            self._busy = True
            request, self._keep_alive = self._waiting.popleft()
            self._waiting_bytes -= len(request.body)
            if not self._waiting:
                self._transport.resume_reading()
            if (work := self._handler.preparation(request)) is None:
                self._answer(request)
            else:
                prepared = self.loop.run_in_executor(None, work)
                prepared.add_done_callback(lambda _: self._answer(request))

    def _answer(self, request: Request) -> None:
        if self._transport.is_closing():
            return
        if self._handler.may_wait(request):
            suspension.run(lambda: self._handle(request))
        else:
            self._handle(request)

    def _handle(self, request: Request) -> None:
        try:
            answer = self._handler.handle(request)
        except NotYet as later:
            if time.monotonic() < later.until:
                self.loop.call_later(0.02, self._answer, request)
                return
            answer = self._handler.refuse(later.otherwise)
        if self._transport.is_closing():
            return
        if isinstance(answer, Response):
            self._respond(answer)
        elif websocket.is_requested(request):
            self._open_socket(request, answer)
        else:
            head = [*answer.headers, ("Content-Type", answer.content_type), ("Transfer-Encoding", "chunked")]
            self._transport.write(_head(200, head, keep_alive=self._keep_alive))
            self._open(answer)

    def _open(self, stream: Stream) -> None:
        self._stream, self._channel = stream, Channel(self, self._outbox)
        stream.opened(self._channel)

    def _open_socket(self, request: Request, stream: Stream) -> None:
        """Send a stream over a WebSocket, which takes the connection for itself."""
        protocols = stream.protocols if isinstance(stream, Conversation) else ()
        try:
            head = [*stream.headers, *websocket.handshake(request, protocols)]
        except Failure as failure:
            self._respond(self._handler.refuse(failure))
            return
        self._transport.write(_head(101, head, keep_alive=True))
        self._keep_alive = False
        self._frames = websocket.Frames(binary=bool(protocols))
        self._open(stream)

    def _receive_frames(self, data: bytes | memoryview) -> None:
        frames, channel = self._frames, self._channel
        assert frames is not None
        answer, messages = frames.receive(data)
        if answer:
            self._write_stream(answer)
        for message in messages:
            # kube-apiserver ignores the messages of those who watch.
            if isinstance(self._stream, Conversation):
                self._stream.receive(message)
        if frames.closed and channel is not None:
            channel.end()

    def _respond(self, answer: Response) -> None:
        if self._write(answer):
            self._done()

    def _write(self, answer: Response) -> bool:
        """Write a response; False if it is large, so that the rest follows as the client reads."""
        headers = list(answer.headers)
        if answer.status != 204:
            headers.append(("Content-Type", answer.content_type))
        if answer.status not in (204, 304):
            headers.append(("Content-Length", str(len(answer.body))))
        head = _head(answer.status, headers, keep_alive=self._keep_alive)
        if len(answer.body) <= PIECE:
            self._transport.write(head + answer.body)
            return True
        self._transport.write(head)
        self._rest = memoryview(answer.body)
        self._write_rest()
        return False

    def _write_rest(self) -> None:
        """Write pieces until the client is behind: a transport copies its whole buffer at every send."""
        while self._rest and self._stalled is None and not self._transport.is_closing():
            piece, self._rest = self._rest[:PIECE], self._rest[PIECE:]
            self._transport.write(piece)
        if not self._rest:
            # An empty view would keep the body in memory.
            self._rest = memoryview(b"")
            self._done()

    def _resume(self) -> None:
        if self._rest:
            self._write_rest()

    def _done(self) -> None:
        self._busy = False
        if not self._keep_alive:
            self._transport.close()
        elif self._waiting:
            self.loop.call_soon(self._next)

    def _refuse(self, failure: Failure) -> None:
        self._keep_alive = False
        if self._busy:
            self._transport.close()
            return
        self._busy, self._phase = True, "refused"
        self._write(self._handler.refuse(failure))
        self.loop.call_later(LINGER_SECONDS, self._transport.close)


def _too_large() -> Failure:
    return Failure(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY}")


def _head(status: int, headers: list[tuple[str, str]], *, keep_alive: bool) -> bytes:
    lines = [f"HTTP/1.1 {status} {_PHRASES.get(status, '')}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if not keep_alive:
        lines.append("Connection: close")
    # Warnings have any text, in UTF-8 as those of kube-apiserver.
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "replace")
