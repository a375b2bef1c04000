"""What a plugin holds of its controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlhost.controller.controller import Controller
    from ctrlhost.request import Request


class ControllerHandle:
    """What a plugin holds of its controller: a way to wake it."""

    def __init__(self, controller: Controller) -> None:
        """Stand for a controller."""
        self._controller = controller

    @property
    def name(self) -> str:
        """The controller's name, as `plugin/name`."""
        return self._controller.name

    @property
    def workers(self) -> int:
        """How many reconciles run at once: what the plugin asked for, or what the operator set instead."""
        return self._controller.options.workers

    def enqueue(self, request: Request, priority: int | None = None) -> None:
        """Have the request reconciled; from any thread, and before the workers run too."""
        self._controller.queue.add(request, priority=priority)

    def enqueue_many(self, requests: Iterable[Request], priority: int | None = None) -> None:
        """Have each of the requests reconciled: one step for the queue, however many there are."""
        self._controller.queue.add_many(list(requests), priority=priority)
