"""Attached sources: the informer and the handler that a source uses while its controller runs."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctrlhost.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctrlhost.config.settings import ShardBy
    from ctrlhost.controller.services import PluginScope
    from ctrlhost.controller.shard_gate import ShardGate
    from ctrlhost.coordination.ownership import Span
    from ctrlhost.informers import Informer
    from ctrlhost.own_writes.lister import PluginLister
    from ctrlhost.own_writes.self_events import SelfEvents
    from ctrlhost.workqueue import WorkQueue

#: Priority of first lists and resyncs, below that of real changes.
LOW_PRIORITY = -100


@dataclass(slots=True, eq=False)
class AttachScope:
    """State that the sources of one controller share while they attach; `For` attaches before all others."""

    plugin: PluginScope
    controller: str
    queue: WorkQueue
    #: The namespaces that the operator allows; empty for all.
    limit: Sequence[str]
    self_events: SelfEvents | None
    #: Whether sources that do not say it themselves enqueue nothing for the controller's own writes.
    suppress_echo: bool = False
    #: The informer of `For`, which sets it.
    primary: Informer | None = None
    #: By apiVersion and kind; the first source of a kind wins.
    listers: dict[tuple[str, str], PluginLister] = field(default_factory=dict)
    #: Those of `Owns` only.
    owned: dict[tuple[str, str], PluginLister] = field(default_factory=dict)
    #: What replicas share the controller's keys by; None if they do not.
    shard_by: ShardBy | None = None
    #: What admits the runs of a sharded controller; set when all sources are attached.
    shards: ShardGate | None = None

    def primary_requests(self) -> list[Request]:
        """Return the keys of all cached objects of `For`'s kind, with shards of those whose range is open here."""
        objects = self.primary.lister.list() if self.primary is not None else ()
        requests = [Request(obj.name, obj.namespace) for obj in objects]
        shards = self.shards
        return requests if shards is None else [request for request in requests if shards.owns(request)]

    def uid_of(self, request: Request) -> str:
        """Return the uid of a cached object of `For`'s kind; empty if there is none."""
        if self.primary is None:
            return ""
        obj = self.listers[self.primary.api_version, self.primary.kind].get(request.name, request.namespace)
        return obj.uid if obj is not None else ""


class Attachment:
    """An attached source, with an informer if it watches a kind. Subclasses without one override the differences."""

    def __init__(self, informer: Informer | None = None, handle: Any = None) -> None:
        """Own one use of `informer`, and the queue's handler on it; `handle` is None if the source is only read."""
        self.informer = informer
        self.handle = handle
        #: Queues the requests of ranges that have opened here.
        self.opened: Callable[[Sequence[Span]], None] = lambda _: None
        self._lock = threading.Lock()
        self._renewed = False

    def has_synced(self) -> bool:
        """Return whether the first list is in the cache and was passed to the queue."""
        if self.informer is None or self.handle is None or self._renewed:
            return self.informer is None or self.informer.has_synced
        return self.informer.has_synced and bool(self.handle.has_synced)

    def waiting(self) -> str | None:
        """Return the reason why the source cannot sync for now, such as a kind that is not served, or None."""
        informer = self.informer
        if informer is None or informer.state != "waiting":
            return None
        # The reason names the kind once more.
        reason = informer.reason.replace(f"kind {informer.kind} in {informer.api_version}", "it")
        return f"{informer.kind} ({informer.api_version}): {reason}"

    def describe(self) -> str:
        """Return the kind and the informer's state, for the message of a sync timeout."""
        informer = self.informer
        return f"{informer.kind} ({informer.api_version}, {informer.state})" if informer is not None else ""

    @property
    def due_at(self) -> float:
        """When the source fills the queue next by the clock, past until it has; infinite for no timer. For tests."""
        return math.inf

    @property
    def error(self) -> str:
        """The error of the source's last round in one line; empty without one. For tests."""
        return ""

    def start(self) -> None:
        """Start timers; called when the controller's workers start."""

    def renew(self, enqueue: Callable[[], Any]) -> None:
        """Fill the queue with the requests of all cached objects once more; `enqueue` adds another such handler."""
        with self._lock:
            if (before := self.handle) is not None:
                self._renewed = True
                # The new one first: it misses no change.
                self.handle = enqueue()
                before.remove()

    def detach(self) -> None:
        """Stop filling the queue; listers keep working."""
        with self._lock:
            if self.handle is not None:
                self.handle.remove()
                self.handle = None

    def release(self) -> None:
        """Detach, and release the informer, which stops after its last release."""
        self.detach()
        if self.informer is not None:
            self.informer.release()


class LateAttachment(Attachment):
    """An attached source that fills the queue only when the controller starts, whose caches are full then."""

    def __init__(self, informer: Informer, enqueue: Callable[[], Any]) -> None:
        """Own one use of `informer`; `enqueue` adds the queue's handler to it, which gets all cached objects first."""
        super().__init__(informer)
        self._enqueue = enqueue

    def start(self) -> None:
        """Fill the queue from now on."""
        self.handle = self._enqueue()

    def has_synced(self) -> bool:
        """Return whether the first list is in the cache."""
        return self.informer is not None and self.informer.has_synced
