"""What the adder of a handler holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.informers.callback_metrics import FunctionCost


class Handle:
    """One handler on one informer."""

    def __init__(self, name: str, remove: Callable[[bool], None], synced: Callable[[], bool]) -> None:
        """Made by `Informer.add_handler` and `Informer.enqueue_to`."""
        self.name = name
        self._remove: Callable[[bool], None] | None = remove
        self._synced = synced
        #: What its functions cost, where it has some in Python.
        self.costs: tuple[FunctionCost, ...] = ()

    @property
    def has_synced(self) -> bool:
        """Whether the first list was handed to this handler and it has dealt with all of it."""
        return self._synced()

    @property
    def active(self) -> bool:
        """Whether it was not removed."""
        return self._remove is not None

    def remove(self, *, wait: bool = False) -> None:
        """Tell the handler nothing more; with `wait`, return after a callback that runs has ended. May be repeated."""
        remove, self._remove = self._remove, None
        if remove is not None:
            remove(wait)
