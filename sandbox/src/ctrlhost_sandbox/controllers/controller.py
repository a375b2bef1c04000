"""A level-triggered controller in the server's own loop: keys go in, `reconcile` runs once per key and turn."""

from __future__ import annotations

import contextlib
import logging
import math
import secrets
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.admission import webhooks
from ctrlhost_sandbox.apimachinery import clock, suspension, times
from ctrlhost_sandbox.apimachinery.status import Failure
from ctrlhost_sandbox.registry import views
from ctrlhost_sandbox.registry.operation import Operation
from ctrlhost_sandbox.storage.store import Event, Snapshot, Table
from ctrlhost_sandbox.verbs import deletes, writes

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.registry import Kind

_log = logging.getLogger("ctrlhost_sandbox.controllers.base")
Key = tuple[str, ...]
_RETRY_SECONDS = 0.1
_LONGEST_SUBJECT = 253 - 17
"""An Event's name is that of its subject, a dot and 16 digits."""


class Controller(ABC):
    """The base class. A subclass maps events to keys, and reconciles one key."""

    name = ""
    parts: frozenset[str] = frozenset()
    """The names that enable it, if they differ from its own."""

    def __init__(self, context: ServerContext) -> None:
        """Act on `context`."""
        self.context = context
        self._dirty: dict[Key, None] = {}
        self._delayed: dict[Key, float] = {}
        """The key's next time on the sandbox's clock."""
        self._scheduled = False
        self._waiting: dict[Key, bool] = {}
        """The keys whose reconcile is under way, and whether each came again since."""

    def start(self) -> None:
        """Follow all commits, and enqueue the stored objects."""
        self.context.store.listeners.append(self._enqueue_touched)
        for table in self.context.store.tables():
            for snapshot in table.list():
                self._enqueue_touched(table, Event(snapshot.revision, None, snapshot))

    @abstractmethod
    def touched(self, table: Table, event: Event) -> list[Key]:
        """Return the keys affected by an event; must be cheap."""

    @abstractmethod
    def reconcile(self, key: Key) -> None:
        """Reconcile one key; a Failure is retried shortly."""

    def add(self, key: Key) -> None:
        """Enqueue a key for the loop's next turn."""
        self._dirty[key] = None
        if not self._scheduled:
            self._scheduled = True
            self.context.soon(self._process)

    def add_after(self, key: Key, seconds: float) -> None:
        """Enqueue a key after a delay of the sandbox's clock, unless it is already due earlier.

        So `reconcile` must ask for every later delay anew.
        """
        due = clock.now() + seconds
        if self._delayed.get(key, math.inf) > due:
            self._delayed[key] = due
            self.context.timers.after(seconds, lambda: self._add_due(key, due))

    def _add_due(self, key: Key, due: float) -> None:
        if self._delayed.get(key) == due:
            del self._delayed[key]
        self.add(key)

    def _enqueue_touched(self, table: Table, event: Event) -> None:
        for key in self.touched(table, event):
            self.add(key)

    def _process(self) -> None:
        """Reconcile a few keys per turn of the loop, so that clients are served in between."""
        for _ in range(50):
            if not self._dirty:
                self._scheduled = False
                return
            key = next(iter(self._dirty))
            del self._dirty[key]
            if key in self._waiting:
                self._waiting[key] = True
            elif webhooks.may_wait(self.context):
                suspension.run(partial(self._reconcile, key))
            else:
                self._reconcile(key)
        self.context.soon(self._process)

    def _reconcile(self, key: Key) -> None:
        """Reconcile a key, which may wait for webhooks while others go on."""
        self._waiting[key] = False
        self.context.pending_work += 1
        try:
            self.reconcile(key)
        except Failure as failure:
            # A conflict or a name in use: retry with the current state.
            _log.debug("sandbox controller %s: retrying %s: %s", self.name, key, failure.message)
            self.add_after(key, _RETRY_SECONDS)
        except Exception:  # noqa: BLE001 - one object must not end the controller
            _log.exception("sandbox controller %s: reconciling %s failed", self.name, key)
        finally:
            self.context.pending_work -= 1
            if self._waiting.pop(key):
                self.add(key)

    # the verbs

    def kind(self, group: str, kind: str) -> Kind:
        """Return a built-in kind."""
        return self.context.registry.builtin(group, kind)

    def operation(self, verb: str, kind: Kind, namespace: str, name: str = "", subresource: str = "") -> Operation:
        """Return an operation of this controller."""
        return Operation(verb, kind, namespace, name, subresource, manager=f"sandbox-{self.name}")

    def read(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Read an object; None if it is missing."""
        snapshot = self.context.store.table(kind.table).get(namespace, name)
        return None if snapshot is None else views.load(kind, snapshot)

    def listed(self, kind: Kind, namespace: str | None = None) -> list[Object]:
        """Read the objects of a namespace or of all."""
        return [views.load(kind, item) for item in self.context.store.table(kind.table).list(namespace)]

    def create(self, kind: Kind, namespace: str, obj: Object) -> Object:
        """Create an object."""
        return writes.create(self.context, self.operation("create", kind, namespace), obj).obj

    def update(self, kind: Kind, obj: Object, subresource: str = "") -> Object:
        """Replace an object, or its sub-resource."""
        metadata = obj["metadata"]
        operation = self.operation("update", kind, metadata.get("namespace", ""), metadata["name"], subresource)
        return writes.update(self.context, operation, obj).obj

    def event(self, about: Object, reason: str, message: str, component: str = "", *, warning: bool = False) -> None:
        """Record an Event about an object, by default as the controller of that name."""
        metadata = about["metadata"]
        namespace = metadata.get("namespace", "")
        now, named = times.now(), {"namespace": namespace, "name": metadata["name"], "uid": metadata["uid"]}
        # Events about cluster-scoped objects are in the namespace default.
        place = namespace or "default"
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{metadata['name'][:_LONGEST_SUBJECT]}.{secrets.token_hex(8)}",
                "namespace": place,
            },
            "involvedObject": {"apiVersion": about["apiVersion"], "kind": about["kind"], **named},
            "reason": reason,
            "message": message,
            "type": "Warning" if warning else "Normal",
            "source": {"component": component or f"{self.name}-controller"},
            "reportingComponent": component or f"{self.name}-controller",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        # Ignore an event that cannot be written, for example in a terminating namespace.
        with contextlib.suppress(Failure):
            self.create(self.kind("", "Event"), place, body)

    def delete(self, kind: Kind, snapshot: Snapshot | Object, policy: str = "", grace: int | None = None) -> None:
        """Delete exactly this object."""
        if isinstance(snapshot, Snapshot):
            namespace, name, uid = snapshot.namespace, snapshot.name, snapshot.uid
        else:
            metadata: dict[str, Any] = snapshot["metadata"]
            namespace, name, uid = metadata.get("namespace", ""), metadata["name"], metadata["uid"]
        options = deletes.DeleteOptions(grace, policy, uid)
        deletes.delete(self.context, self.operation("delete", kind, namespace, name), options)


def is_terminating(snapshot: Snapshot) -> bool:
    """Return whether the object is being deleted."""
    return b'"deletionTimestamp"' in snapshot.raw and "deletionTimestamp" in snapshot.decode()["metadata"]


def controller_of(obj: Object) -> str | None:
    """Return the uid of the owner that controls an object."""
    owner = owner_of(obj)
    return None if owner is None else str(owner["uid"])


def owner_of(obj: Object) -> dict[str, Any] | None:
    """Return the reference to the owner that controls an object."""
    references = obj["metadata"].get("ownerReferences") or ()
    return next((item for item in references if item.get("controller")), None)
