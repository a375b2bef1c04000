"""The transport of a plugin's clients: requests wait for the plugin's budget and are permitted last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ctrlhost.client.in_flight import InFlight
from ctrlhost.transport.wrapped import WrappedTransport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from websocket import WebSocket

    from ctrlhost.client.budget import Budget
    from ctrlhost.transport.interface import HttpRequest, Permit, Response, Stream, Transport
    from ctrlhost.transport.steps import Steps

#: Reviews are POSTed, but write nothing.
_REVIEWS = ("/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/")


def reads_only(request: HttpRequest) -> bool:
    """Return whether a request writes nothing."""
    return request.method == "GET" or request.path.startswith(_REVIEWS)


class GovernedTransport(WrappedTransport):
    """A transport whose requests wait for a budget first, and ask a permit last. Streams are only permitted."""

    def __init__(
        self,
        transport: Transport,
        budget: Budget | None,
        reads: Permit,
        writes: Permit,
        in_flight: InFlight | None = None,
    ) -> None:
        """Send through `transport`; `reads` permits GET and reviews, `writes` all others, which `in_flight` counts."""
        super().__init__(transport)
        self._budget = budget
        self._reads = reads
        self._writes = writes
        self._in_flight = in_flight or InFlight()

    def steps(self, request: HttpRequest) -> Steps[Response]:
        """Return the response. Raises what the permits raise; ValueError if the request has one already."""
        if request.permit is not None:
            raise ValueError("the requests of a plugin have a permit already")
        timeout = request.timeout
        if self._budget is not None:
            timeout = yield from self._budget.turn(timeout, request.what)
        if reads_only(request):
            return (yield from self.transport.steps(replace(request, timeout=timeout, permit=self._reads)))
        write = self._in_flight.begin()
        try:
            return (yield from self.transport.steps(replace(request, timeout=timeout, permit=self._writes)))
        finally:
            self._in_flight.end(write)

    def open(self, request: HttpRequest) -> Stream:
        """Open a stream, if reads are permitted."""
        self._reads()
        return self.transport.open(request)

    def websocket(self, request: HttpRequest, protocols: Sequence[str]) -> WebSocket:
        """Open a WebSocket to a pod, if writes are permitted."""
        self._writes()
        return self.transport.websocket(request, protocols)

    def separate(self) -> Transport:
        """Return itself: the connections are the host's."""
        return self

    def close(self) -> None:
        """Do nothing: the connections are the host's."""
