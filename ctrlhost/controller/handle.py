"""The handle through which a plugin enqueues requests of its controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlhost.config.settings import ShardBy
    from ctrlhost.controller.controller import Controller
    from ctrlhost.request import Request


class ControllerHandle:
    """The handle of a registered controller, to enqueue requests. All methods may be called from any thread."""

    def __init__(self, controller: Controller) -> None:
        """Wrap `controller`."""
        self._controller = controller

    @property
    def name(self) -> str:
        """The controller's name, as `plugin/name`."""
        return self._controller.name

    @property
    def workers(self) -> int:
        """The number of concurrent reconciles: as declared by the plugin, or as overridden by the operator."""
        return self._controller.options.workers

    @property
    def shard_by(self) -> ShardBy | None:
        """What replicas share its keys by, as declared or as overridden by the operator; None if they do not."""
        return self._controller.options.shard_by if self._controller.sharded else None

    def enqueue(self, request: Request, priority: int | None = None) -> None:
        """Enqueue a request, also before the workers run; `priority` None keeps that of a queued request, else is 0."""
        self._controller.queue.add(request, priority=priority)

    def enqueue_many(self, requests: Iterable[Request], priority: int | None = None) -> None:
        """Enqueue all requests under one lock of the queue; `priority` as for `enqueue`."""
        self._controller.queue.add_many(list(requests), priority=priority)
