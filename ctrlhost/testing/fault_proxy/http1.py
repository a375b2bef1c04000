"""HTTP/1.1 for the proxy: heads, bodies by length or in chunks, and the frames of a watch."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctrlhost.testing.faults import status_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

#: Maximum size of a head, and of a line in a chunked body.
LIMIT = 1 << 20
_PIECE = 1 << 18


class Broken(Exception):
    """The peer sent invalid HTTP, or closed the connection within a message."""


@dataclass(slots=True)
class Head:
    """The first line of a request or an answer, and the headers as received."""

    first: str
    headers: list[tuple[str, str]]

    def get(self, name: str) -> str:
        """Return the value of a header in lower case, or ""."""
        return next((value.lower() for key, value in self.headers if key.lower() == name), "")

    def without(self, *names: str) -> list[tuple[str, str]]:
        """Return the headers except for `names`."""
        return [(key, value) for key, value in self.headers if key.lower() not in names]


def write_head(first: str, headers: list[tuple[str, str]]) -> bytes:
    """Return the bytes of a head."""
    lines = [first, *(f"{key}: {value}" for key, value in headers)]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """Read the next head; None if the peer closed the connection cleanly before it."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return None
        raise Broken("closed within the headers") from error
    except (asyncio.LimitOverrunError, OSError) as error:
        raise Broken(str(error)) from error
    first, *lines = raw.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    headers = [(key, value.strip()) for key, _, value in (line.partition(":") for line in lines)]
    return Head(first, headers)


async def read_body(reader: asyncio.StreamReader, head: Head, *, until_close: bool) -> AsyncIterator[bytes]:
    """Yield the body in pieces; with `until_close`, a body without a length ends with the connection."""
    try:
        if head.get("transfer-encoding") == "chunked":
            while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
                yield (await reader.readexactly(size + 2))[:-2]
            while await reader.readuntil(b"\r\n") != b"\r\n":
                pass
            return
        length = head.get("content-length")
        left = int(length) if length else None if until_close else 0
        while left is None or left > 0:
            piece = await reader.read(_PIECE if left is None else min(left, _PIECE))
            if not piece:
                if left is None:
                    return
                raise Broken("closed within the body")
            if left is not None:
                left -= len(piece)
            yield piece
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError, ValueError) as error:
        raise Broken(str(error)) from error


async def whole(pieces: AsyncIterator[bytes]) -> bytes:
    """Read a body to its end."""
    return b"".join([piece async for piece in pieces])


def chunk(data: bytes) -> bytes:
    """Return a chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


class Frames:
    """Splits the pieces of a watch into frames: lines of JSON, or bodies after four bytes of length."""

    def __init__(self, content_type: str) -> None:
        """Expect the frames of this content type."""
        self._lines = "json" in content_type
        self._rest = b""

    @property
    def rest(self) -> bytes:
        """The received part of an incomplete frame."""
        return self._rest

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the frames that are complete."""
        data = self._rest + piece
        frames = []
        while True:
            end = data.find(b"\n") + 1 if self._lines else 4 + int.from_bytes(data[:4].ljust(4, b"\xff"), "big")
            if not 0 < end <= len(data):
                break
            frames.append(data[:end])
            data = data[end:]
        self._rest = data
        return frames


def failure_body(code: int, reason: str = "", retry_after: int | None = None) -> bytes:
    """Return a `Status` of this code; the reason is by default the usual one."""
    from ctrlhost_sandbox.apimachinery.status import REASONS

    details: dict[str, object] = {} if retry_after is None else {"retryAfterSeconds": retry_after}
    message = f"injected by the fault proxy: {code}"
    if reason == "ResourceVersionTooLarge":
        message = "Too large resource version"
        details["causes"] = [{"reason": reason, "message": message}]
        reason = "Timeout"
    return status_body(code, message, reason or REASONS.get(code, ""), details)


def error_frame(code: int, *, lines: bool) -> bytes:
    """Return an ERROR event as a line of JSON, else in protobuf."""
    if lines:
        return b'{"type":"ERROR","object":' + failure_body(code) + b"}\n"
    status = json.loads(failure_body(code))
    texts = ((2, status["status"]), (3, status["message"]), (4, status["reason"]))
    raw = b"".join(_counted(number, text.encode()) for number, text in texts) + b"\x30" + _varint(code)
    kind = _counted(1, b"v1") + _counted(2, b"Status")
    envelope = b"k8s\x00" + _counted(1, kind) + _counted(2, raw)
    event = _counted(1, b"ERROR") + _counted(2, _counted(1, envelope))
    return len(event).to_bytes(4, "big") + event


def _counted(number: int, content: bytes) -> bytes:
    """Return a field of a protobuf message."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + _varint(number >> 7)
