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
    ) -> None:
        """Create the handle; called by `Informer.add_handler` and `Informer.enqueue_to`."""
        self.name = name
        self._remove: Callable[[bool], None] | None = remove
        self._synced = synced
        #: One entry per Python function of the handler.
        self.callback_metrics = callback_metrics

    @property
    def has_synced(self) -> bool:
        """Whether the handler has processed the whole first list."""
        return self._synced()

    @property
    def active(self) -> bool:
        """Whether the handler was not removed."""
        return self._remove is not None

    def remove(self, *, wait: bool = False) -> None:
        """Stop notifying the handler; with `wait`, return after a running callback has ended. May be repeated."""
        remove, self._remove = self._remove, None
        if remove is not None:
            remove(wait)
