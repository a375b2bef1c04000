"""One client connection: its requests in sequence, each forwarded or hit by a fault."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from ctrlhost.testing.fault_proxy.fault import BEFORE_THE_SERVER, Injected
from ctrlhost.testing.fault_proxy.http1 import (
    LAST_CHUNK,
    Broken,
    Head,
    chunk,
    failure_body,
    read_body,
    read_head,
    whole,
    write_head,
)
from ctrlhost.testing.fault_proxy.relay import Cut, Relay
from ctrlhost.testing.fault_proxy.replay import Recorder, Recording, replay_key
from ctrlhost.testing.faults import RequestInfo, request_info

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ctrlhost.testing.fault_proxy.plan import GlobalFaults, Plan
    from ctrlhost.testing.fault_proxy.upstream import Upstream

_HOP = ("connection", "keep-alive", "transfer-encoding", "accept-encoding", "host", "content-length", "expect")


class Session:
    """Serves one connection until either side closes it."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        upstream: Upstream,
        plan: Plan,
        recorder: Recorder,
        global_faults: GlobalFaults,
    ) -> None:
        """Own an accepted connection; `serve` serves it."""
        self._reader, self._writer = reader, writer
        self._upstream, self._plan, self._recorder, self._global_faults = upstream, plan, recorder, global_faults

    async def serve(self) -> None:
        """Serve requests until the connection ends."""
        try:
            while (more := await self._serve_one()) is True:
                pass
            if more is False:
                self._writer.close()
                with contextlib.suppress(OSError):
                    await self._writer.wait_closed()
        except (Cut, Broken, OSError):
            reset(self._writer)

    async def _serve_one(self) -> bool | None:
        """Serve one request; False if the connection is to be closed after it, None if the client has closed it."""
        head = await read_head(self._reader)
        if head is None:
            return None
        if head.get("expect") == "100-continue":
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await whole(read_body(self._reader, head, until_close=False))
        self._plan.requests += 1
        method, target, _ = (head.first + "  ").split(" ", 2)
        parts = urlsplit(target)
        request = request_info(method, parts.path, head.get("content-type"))
        if request.verb in ("list", "get") and dict(parse_qsl(parts.query)).get("watch") in ("1", "true"):
            request = replace(request, verb="watch")
        await self._global_faults.pass_through()
        hit = self._plan.for_request(request, parts.path)
        if hit is not None and hit.fault.kind in BEFORE_THE_SERVER:
            await self._answer_instead(hit)
        else:
            await self._forward(method, target, head, body, request, hit)
        return head.get("connection") != "close"

    async def _answer_instead(self, hit: Injected) -> None:
        """Inject a fault that keeps the request from the server."""
        fault = self._plan.struck(hit).fault
        if fault.kind == "stall":
            # Cancelled when the client closes the connection.
            await asyncio.sleep(fault.seconds or 1e9)
        if fault.kind != "answer":
            raise Cut
        body = failure_body(fault.status, fault.reason, fault.retry_after)
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        if fault.retry_after is not None:
            headers.append(("Retry-After", str(fault.retry_after)))
        self._writer.write(write_head(f"HTTP/1.1 {fault.status} {fault.reason or 'Fault'}", headers) + body)
        await self._writer.drain()

    async def _forward(
        self, method: str, target: str, head: Head, body: bytes, request: RequestInfo, hit: Injected | None
    ) -> None:
        watch = request.verb == "watch"
        key = replay_key(target, head.get("accept")) if request.verb in ("list", "watch") else ""
        if hit is not None and hit.fault.kind == "delay":
            self._plan.struck(hit)
            await asyncio.sleep(hit.fault.seconds)
        if hit is not None and hit.fault.kind == "older" and (older := self._recorder.oldest(key)) is not None:
            self._plan.struck(hit)
            await self._replay(older, watch=watch)
            return
        headers = [("Host", self._upstream.netloc), *head.without(*_HOP)]
        if body or method in ("POST", "PUT", "PATCH"):
            headers.append(("Content-Length", str(len(body))))
        link, answer = await self._upstream.send(f"{method} {self._upstream.prefix}{target} HTTP/1.1", headers, body)
        try:
            recording = Recording(self._recorder, key if _is_ok(answer) else "", watch=watch)
            empty = method == "HEAD" or answer.first.split(" ")[1] in ("204", "304")
            pieces = _pieces() if empty else read_body(link.reader, answer, until_close=True)
            if whole_first := hit is not None and not watch:
                pieces = _pieces(await whole(pieces))
            else:
                complete = await self._answer(answer, pieces, hit, recording, watch=watch)
        except BaseException:
            link.drop()
            raise
        if whole_first:
            # However much the client receives, the server's connection can be used again.
            self._upstream.keep(link)
            await self._answer(answer, pieces, hit, recording, watch=watch)
        elif complete:
            self._upstream.keep(link)
        else:
            link.drop()

    async def _answer(
        self, answer: Head, pieces: AsyncIterator[bytes], hit: Injected | None, recording: Recording, *, watch: bool
    ) -> bool:
        """Forward an answer; return whether it was read to its end."""
        headers = answer.without("transfer-encoding", "connection", "keep-alive")
        chunked = not answer.get("content-length")
        if hit is not None and hit.fault.kind == "truncate":
            headers, chunked = [pair for pair in headers if pair[0].lower() != "content-length"], True
        if chunked:
            headers.append(("Transfer-Encoding", "chunked"))
        raw = write_head(answer.first, headers)
        if hit is not None and hit.fault.kind == "cut-headers":
            self._plan.struck(hit)
            self._writer.write(raw[: int(len(raw) * hit.fault.part)])
            await self._writer.drain()
            raise Cut
        self._writer.write(raw)
        relay = Relay(self._writer, self._global_faults, chunked=chunked)
        complete = True
        if hit is None or not _is_ok(answer):
            async for piece in pieces:
                recording.take(piece)
                await relay.send(piece)
        else:
            complete = await relay.hit(pieces, hit, self._plan, answer.get("content-type") if watch else "", recording)
        if complete:
            recording.done()
        await relay.end()
        return complete

    async def _replay(self, body: bytes, *, watch: bool) -> None:
        content_type = "application/json" if body[:1] == b"{" else "application/vnd.kubernetes.protobuf"
        if watch:
            content_type += "" if body[:1] == b"{" else ";stream=watch"
        length = ("Transfer-Encoding", "chunked") if watch else ("Content-Length", str(len(body)))
        head = write_head("HTTP/1.1 200 OK", [("Content-Type", content_type), length])
        self._writer.write(head + (chunk(body) + LAST_CHUNK if watch else body))
        await self._writer.drain()


def reset(writer: asyncio.StreamWriter) -> None:
    """Reset a connection, without a TLS close."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        reset_on_close(sock)
    writer.transport.abort()


def reset_on_close(sock: socket.socket) -> None:
    """Reset the connection when the socket is closed, even with unsent data."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _is_ok(answer: Head) -> bool:
    return answer.first.split(" ")[1].startswith("2")


async def _pieces(*bodies: bytes) -> AsyncIterator[bytes]:
    for body in bodies:
        yield body
