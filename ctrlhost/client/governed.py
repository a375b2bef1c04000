"""The transport of a plugin's clients: requests wait for the plugin's budget and are permitted last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.client.steps import send_async
from ctrlhost.transport.interface import DEFAULT_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.client.budget import Budget
    from ctrlhost.transport.interface import Permit, Query, Response, Stream, StreamTimeouts, Transport

#: Reviews are POSTed, but write nothing.
_REVIEWS = ("/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/")


def reads_only(method: str, path: str) -> bool:
    """Return whether a request writes nothing."""
    return method == "GET" or path.startswith(_REVIEWS)


class GovernedTransport:
    """A transport whose requests wait for a budget first, and ask a permit last. Streams are only permitted."""

    def __init__(self, transport: Transport, budget: Budget | None, reads: Permit, writes: Permit) -> None:
        """Send through `transport`; `reads` permits GET and reviews, `writes` all others."""
        self._transport = transport
        self._budget = budget
        self._reads = reads
        self._writes = writes
        self.metrics: Any = getattr(transport, "metrics", None)
        self.dry_run: bool = getattr(transport, "dry_run", False)
        self.count_retry: Any = getattr(transport, "count_retry", lambda _method, _code: None)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        permit: Permit | None = None,
    ) -> Response:
        """Return the response; see `Transport.request`. Raises what the permits raise."""
        own = self._permit(method, path, permit)
        if self._budget is not None:
            timeout = self._budget.wait(DEFAULT_TIMEOUT if timeout is None else timeout, f"{method} {path}")
        return self._transport.request(
            method, path, query=query, body=body, headers=headers, timeout=timeout, permit=own
        )

    async def request_async(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as in `request`
        permit: Permit | None = None,
    ) -> Response:
        """Do `request` on an event loop; see `AsyncTransport.request_async`."""
        own = self._permit(method, path, permit)
        if self._budget is not None:
            timeout = await self._budget.wait_async(DEFAULT_TIMEOUT if timeout is None else timeout, f"{method} {path}")
        return await send_async(
            self._transport, method, path, query=query, body=body, headers=headers, timeout=timeout, permit=own
        )

    def _permit(self, method: str, path: str, given: Permit | None) -> Permit:
        """Return the permit of a request. ValueError if it has another one already."""
        if given is not None:
            raise ValueError("the requests of a plugin have a permit already")
        return self._reads if reads_only(method, path) else self._writes

    def stream(
        self,
        path: str,
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        timeouts: StreamTimeouts | None = None,
    ) -> Stream:
        """Open a stream; see `Transport.stream`."""
        self._reads()
        return self._transport.stream(path, query=query, headers=headers, timeouts=timeouts)

    def close(self) -> None:
        """Do nothing: the transport is the host's."""
