"""What follows the writes and the runs of plugins, if the operator wants it: the audit log and traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.transport.interface import Transport
    from ctrlhost.workqueue import WorkQueue


class Audit(Protocol):
    """The audit log. Callable from any thread."""

    def of(self, plugin: str, transport: Transport) -> Transport:
        """Return a transport for the requests of a plugin."""

    def close(self) -> None:
        """Write what waits."""


class Traces(Protocol):
    """What makes spans. Callable from any thread."""

    def reconciler(
        self, reconcile: Callable[..., Any], controller: str, queue: WorkQueue, *, is_async: bool
    ) -> Callable[..., Any]:
        """Return the reconciler with a span for each run."""

    def transport(self, transport: Transport) -> Transport:
        """Return a transport whose requests are spans below that of their reconcile."""

    def close(self) -> None:
        """Export what waits."""
