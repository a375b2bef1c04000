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
        self._remove = remove
        self._removed = False
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
        return not self._removed

    def remove(self, *, wait: bool = False) -> None:
        """Stop notifying the handler: no call of its functions begins after this has returned.

        May be repeated, and tried again if it raised. May be called from a callback of any handler, a map or a
        predicate: the handler then gets nothing more, although a call that another thread has begun may still run.
        Elsewhere this waits for a running map or predicate, and with `wait` for a running callback, too. RuntimeError
        in a forked child.
        """
        self._remove(wait)
        self._removed = True
