"""A transport over another one."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from ctrlhost.transport.interface import HttpRequest, Response, Stream, Transport
from ctrlhost.transport.steps import Steps, carry_out, carry_out_async

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from websocket import WebSocket


class WrappedTransport(Transport):
    """Does what the transport below does, unless a subclass says otherwise.

    `steps` is what happens to a request, in threads and on event loops alike; `open` what happens to a stream.
    """

    def __init__(self, transport: Transport) -> None:
        """Send through `transport`."""
        self.over(transport)

    def over(self, transport: Transport) -> Self:
        """Send through `transport` from now on; for copies."""
        self.transport = transport
        self.url, self.metrics, self.dry_run = transport.url, transport.metrics, self.dry_run or transport.dry_run
        return self

    def steps(self, request: HttpRequest) -> Steps[Response]:
        """Return the response to a request."""
        return (yield from self.transport.steps(request))

    def send(self, request: HttpRequest) -> Response:
        """Carry out `steps` in this thread."""
        return carry_out(self.steps(request))

    async def send_async(self, request: HttpRequest) -> Response:
        """Carry out `steps` on the event loop."""
        return await carry_out_async(self.steps(request))

    def open(self, request: HttpRequest) -> Stream:
        """Open a stream of the transport below."""
        return self.transport.open(request)

    def websocket(self, request: HttpRequest, protocols: Sequence[str]) -> WebSocket:
        """Open a WebSocket of the transport below."""
        return self.transport.websocket(request, protocols)

    def separate(self) -> Transport:
        """Return the same over a transport with connections of its own."""
        return copy.copy(self).over(self.transport.separate())

    def account(self) -> str:
        """Return who sends the requests of the transport below."""
        return self.transport.account()

    def count_retry(self, method: str, code: str) -> None:
        """Count in the transport below."""
        self.transport.count_retry(method, code)

    def close(self) -> None:
        """Close the transport below."""
        self.transport.close()
