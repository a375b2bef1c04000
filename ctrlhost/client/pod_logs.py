"""Logs of pods, line by line while they arrive."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost.transport.interface import HttpRequest, Transport

#: A container may say nothing for as long as it runs.
NEVER_IDLE = 1e9


def log_lines(transport: Transport, request: HttpRequest, *, follow: bool) -> Iterator[str]:
    """Return the lines of a log without their ends; closing the iterator drops the connection.

    ApiError if the server refuses the request, TransportError if the log is cut.
    """
    if follow:
        request = replace(request, idle=NEVER_IDLE)
    rest = b""
    with closing(transport.open(request)) as stream:
        while data := stream.read():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")
