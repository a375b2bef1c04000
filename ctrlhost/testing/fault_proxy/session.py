"""One connection of a client: its requests one after the other, each sent on or hit by a fault."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from ctrlhost.testing.fault_proxy.fault import BEFORE_THE_SERVER, Injected
from ctrlhost.testing.fault_proxy.http1 import (
    LAST_CHUNK,
    LIMIT,
    Broken,
    Head,
    chunk,
    read_body,
    read_head,
    status_body,
    write_head,
)
from ctrlhost.testing.fault_proxy.relay import Cut, Relay
from ctrlhost.testing.fault_proxy.replay import Recorder, Recording, question
from ctrlhost.testing.fault_proxy.upstream import Upstream, whole
from ctrlhost.testing.faults import Asked, asked

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from ctrlhost.testing.fault_proxy.plan import GlobalFaults, Plan

_HOP = ("connection", "keep-alive", "transfer-encoding", "accept-encoding", "host", "content-length", "expect")
_HANDSHAKE = 30.0
_JSON = [("Content-Type", "application/json")]


class Session:
    """Serves one connection until either side has enough."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        upstream: Upstream,
        plan: Plan,
        recorder: Recorder,
        global_faults: GlobalFaults,
        asked: Callable[[], None],
    ) -> None:
        """Take over a connection that was accepted; `asked` hears of each request."""
        self._reader, self._writer = reader, writer
        self._upstream, self._plan, self._recorder, self._global_faults = upstream, plan, recorder, global_faults
        self._asked = asked

    async def serve(self) -> None:
        """Serve requests until the connection ends."""
        try:
            while (more := await self._one()) is True:
                pass
            if more is False:
                await self._close()
        except (Cut, Broken, OSError):
            self.reset()

    def reset(self) -> None:
        """Drop the connection with a reset, without a word of TLS."""
        reset(self._writer)

    async def _close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _one(self) -> bool | None:
        """Serve one request; False if the connection is to be closed after it, None if the client has closed it."""
        head = await read_head(self._reader)
        if head is None:
            return None
        if head.get("expect") == "100-continue":
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await whole(read_body(self._reader, head, until_close=False))
        self._asked()
        method, target, _ = (head.first + "  ").split(" ", 2)
        about, path = _about(method, target, head)
        await self._global_faults.pass_through()
        hit = self._plan.for_request(about, path)
        if hit is not None and hit.fault.kind in BEFORE_THE_SERVER:
            await self._instead(hit)
        else:
            await self._forward(method, target, head, body, about, hit)
        return head.get("connection") != "close"

    async def _instead(self, hit: Injected) -> None:
        """Do something in the server's place."""
        fault = self._plan.struck(hit).fault
        if fault.kind == "stall":
            # Cancelled when the client goes.
            await asyncio.sleep(fault.seconds or 1e9)
        if fault.kind != "answer":
            raise Cut
        content = status_body(fault.status, fault.reason, fault.retry_after)
        headers = [*_JSON, ("Content-Length", str(len(content)))]
        if fault.retry_after is not None:
            headers.append(("Retry-After", str(fault.retry_after)))
        self._writer.write(write_head(f"HTTP/1.1 {fault.status} {fault.reason or 'Fault'}", headers) + content)
        await self._writer.drain()

    async def _forward(
        self, method: str, target: str, head: Head, body: bytes, about: Asked, hit: Injected | None
    ) -> None:
        fault = hit.fault if hit is not None else None
        replayed = question(target, head.get("accept")) if about.verb in ("list", "watch") else ""
        if fault is not None and hit is not None:
            if fault.kind == "delay":
                self._plan.struck(hit)
                await asyncio.sleep(fault.seconds)
            elif fault.kind == "older" and (older := self._recorder.oldest(replayed)) is not None:
                self._plan.struck(hit)
                await self._replay(older, about)
                return
        headers = [("Host", self._upstream.netloc), *head.without(*_HOP)]
        if body or method in ("POST", "PUT", "PATCH"):
            headers.append(("Content-Length", str(len(body))))
        link, answer = await self._upstream.send(f"{method} {self._upstream.prefix}{target} HTTP/1.1", headers, body)
        try:
            recording = Recording(self._recorder, replayed if _is_ok(answer) else "", watch=about.verb == "watch")
            empty = method == "HEAD" or answer.first.split(" ")[1] in ("204", "304")
            pieces = _pieces() if empty else read_body(link.reader, answer, until_close=True)
            if whole_first := hit is not None and about.verb != "watch":
                pieces = _pieces(await whole(pieces))
            else:
                complete = await self._answer(answer, pieces, about, hit, recording)
        except BaseException:
            link.drop()
            raise
        if whole_first:
            # Whatever the client gets to see of it, the server's connection is good for another request.
            self._upstream.keep(link)
            await self._answer(answer, pieces, about, hit, recording)
        elif complete:
            self._upstream.keep(link)
        else:
            link.drop()

    async def _answer(
        self, answer: Head, pieces: AsyncIterator[bytes], about: Asked, hit: Injected | None, recording: Recording
    ) -> bool:
        """Pass an answer on; tell whether it was read to its end."""
        fault = hit.fault if hit is not None else None
        headers = answer.without("transfer-encoding", "connection", "keep-alive")
        chunked = not answer.get("content-length")
        if fault is not None and hit is not None and fault.kind == "truncate":
            headers, chunked = [pair for pair in headers if pair[0].lower() != "content-length"], True
        if chunked:
            headers.append(("Transfer-Encoding", "chunked"))
        raw = write_head(answer.first, headers)
        if fault is not None and hit is not None and fault.kind == "cut-headers":
            self._plan.struck(hit)
            self._writer.write(raw[: int(len(raw) * fault.part)])
            await self._writer.drain()
            raise Cut
        self._writer.write(raw)
        relay = Relay(self._writer, self._global_faults, chunked=chunked)
        complete = True
        if fault is None or hit is None or not _is_ok(answer):
            async for piece in pieces:
                recording.take(piece)
                await relay.send(piece)
        else:
            watch = answer.get("content-type") if about.verb == "watch" else ""
            complete = await relay.hit(pieces, hit, self._plan, watch, recording)
        if complete:
            recording.done()
        await relay.end()
        return complete

    async def _replay(self, body: bytes, about: Asked) -> None:
        content_type = "application/json" if body[:1] == b"{" else "application/vnd.kubernetes.protobuf"
        if about.verb == "watch":
            content_type += "" if body[:1] == b"{" else ";stream=watch"
            headers = [("Content-Type", content_type), ("Transfer-Encoding", "chunked")]
            self._writer.write(write_head("HTTP/1.1 200 OK", headers) + chunk(body) + LAST_CHUNK)
        else:
            headers = [("Content-Type", content_type), ("Content-Length", str(len(body)))]
            self._writer.write(write_head("HTTP/1.1 200 OK", headers) + body)
        await self._writer.drain()


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], asyncio.Task[None]]


async def accept(sock: socket.socket, serve: Serve, context: ssl.SSLContext) -> None:
    """Greet a new connection, and let `serve` have it; its task ends when the client goes."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LIMIT, loop=loop)
    protocol = _Protocol(reader, loop=loop)
    transport, _ = await loop.connect_accepted_socket(
        lambda: protocol, sock, ssl=context, ssl_handshake_timeout=_HANDSHAKE
    )
    protocol.task = serve(reader, asyncio.StreamWriter(transport, protocol, reader, loop))


class _Protocol(asyncio.StreamReaderProtocol):
    """Ends the task of a connection when its client goes, even while it waits for something else."""

    task: asyncio.Task[None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Hear that the connection is gone."""
        super().connection_lost(exc)
        if self.task is not None:
            self.task.cancel()

    def eof_received(self) -> bool:
        """Hear that the client said its last word, which over HTTP/1.1 is that it goes."""
        super().eof_received()
        return False


def reset(writer: asyncio.StreamWriter) -> None:
    """Drop a connection with a reset."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        linger_not(sock)
    writer.transport.abort()


def linger_not(sock: socket.socket) -> None:
    """Let the socket's end be a reset, whatever is still to be sent."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _about(method: str, target: str, head: Head) -> tuple[Asked, str]:
    parts = urlsplit(target)
    found = asked(method, parts.path, head.get("content-type"))
    if found.verb in ("list", "get") and dict(parse_qsl(parts.query)).get("watch") in ("1", "true"):
        found = Asked("watch", found.resource, found.name)
    return found, parts.path


def _is_ok(answer: Head) -> bool:
    return answer.first.split(" ")[1].startswith("2")


async def _pieces(*bodies: bytes) -> AsyncIterator[bytes]:
    for body in bodies:
        yield body
