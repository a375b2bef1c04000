"""Handles of registered handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.informers.callback_metrics import FunctionMetrics


class Handle:
    """Registration of one handler with one informer, as client-go's `ResourceEventHandlerRegistration`.

    All methods may be called from any thread.
    """

    def __init__(
        self,
        name: str,
        remove: Callable[[bool], None],
        synced: Callable[[], bool],
        callback_metrics: tuple[FunctionMetrics, ...] = (),
        *,
        fills_queue: bool = False,
        owner: str = "",
        pending: Callable[[], int] = int,
    ) -> None:
        """Create the handle; called by `Informer.add_handler` and `Informer.enqueue_to`."""
        self.name = name
        self._remove = remove
        self._removed = False
        self._synced = synced
        #: The plugin whose threads call the functions; "factory" and "informers" are the host's own.
        self.owner = owner
        self._pending = pending
        #: Whether the handler adds requests to a queue.
        self.fills_queue = fills_queue
        #: One entry per Python function of the handler.
        self.callback_metrics = callback_metrics

    @property
    def has_synced(self) -> bool:
        """Whether the handler has processed the whole first list."""
        return self._synced()

    @property
    def pending(self) -> int:
        """The number of notifications that its functions have not processed."""
        return self._pending()

    @property
    def active(self) -> bool:
        """Whether the handler was not removed."""
        return not self._removed

    def remove(self, *, wait: bool = False) -> None:
        """Stop notifying the handler: no call of its functions begins after this has returned.

        May be repeated, and tried again if it raised. A call that another thread has begun may still run; with `wait`
        this waits for it, except in a callback of any handler, a map, a predicate or an index function. RuntimeError in
        a forked child.
        """
        self._remove(wait)
        self._removed = True
