"""Events about objects, for users: `kubectl describe` shows them. Written through events.k8s.io/v1 only.

Recording never blocks and never fails: a background thread writes the events. Equal events become one event with a
series; further events of an object that has too many are dropped.
"""

from __future__ import annotations

import itertools
import re
import socket
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ctrlhost.clock import micro_time
from ctrlhost.events.correlator import Correlator
from ctrlhost.events.event_log import EventLog
from ctrlhost.events.sink import EventSink

if TYPE_CHECKING:
    from ctrlhost.cache import Object
    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.events.correlator import Recorded
    from ctrlhost.transport.interface import Permit

#: Limits of the API, in characters for the reason and in bytes for the note.
MAX_REASON, MAX_NOTE_BYTES = 128, 1024
#: Seconds between two looks whether all events are written.
_FLUSH_POLL = 0.005
_NOT_IN_NAMES = re.compile(r"[^a-z0-9.-]+")


class EventRecorder:
    """Records the events of a host. All methods may be called from any thread."""

    def __init__(self, client: Client, clock: Clock, *, host: str | None = None) -> None:
        """Write with the credentials of `client`; `host` distinguishes the events of this process from others."""
        # Events neither wait for the requests of plugins nor delay them.
        self._client = client.separate()
        self._clock = clock
        self._host = host or socket.gethostname()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._sink = EventLog() if client.dry_run else EventSink(self._client, clock, self._upkeep)
        self._series = Correlator(clock)

    def start(self) -> None:
        """Start to write events, including those recorded before."""
        self._sink.start()

    def flush(self, timeout: float) -> bool:
        """Write all events and series so far; return whether that took at most `timeout` real seconds."""
        self._submit_unwritten()
        deadline, pause = time.monotonic() + timeout, threading.Event()
        while not self.idle() and time.monotonic() < deadline:
            pause.wait(_FLUSH_POLL)
        return self.idle()

    def stop(self, timeout: float) -> bool:
        """Write the remaining events and series; return whether that took at most `timeout` real seconds."""
        self._submit_unwritten()
        ended = self._sink.stop(timeout)
        self._client.close()
        return ended

    def _submit_unwritten(self) -> None:
        with self._lock:
            for event, permit in self._series.unwritten():
                self._sink.submit(event, permit)

    def idle(self) -> bool:
        """Return whether there is nothing to write now; events that wait for a retry do not count."""
        return self._sink.idle()

    @property
    def dropped(self) -> int:
        """The number of dropped events: too many of one object, too many at once, or rejected by the server."""
        return self._sink.dropped + self._series.dropped

    def record(
        self,
        controller: str,
        obj: Object | Mapping[str, Any],
        type_: str,
        reason: str,
        note: str,
        *,
        action: str | None = None,
        related: Object | Mapping[str, Any] | None = None,
        permit: Permit | None = None,
    ) -> None:
        """Record an event about `obj`, reported by `controller`; it is dropped unless `permit` allows it to be sent."""
        now = self._clock.time()
        regarding = reference(obj)
        event: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": self._name(regarding["name"], now),
                "namespace": regarding.get("namespace") or "default",
            },
            "eventTime": micro_time(now),
            "type": type_,
            "reason": reason[:MAX_REASON],
            "action": (action or reason)[:MAX_REASON],
            "note": _shortened(note),
            "reportingController": controller,
            "reportingInstance": f"{controller}-{self._host}"[:MAX_REASON],
            "regarding": regarding,
        }
        if related is not None:
            event["related"] = reference(related)
        with self._lock:
            write = self._series.observe(event, now, permit)
            if write is not None:
                self._sink.submit(write, permit)

    def about(self, kind: str, namespace: str, name: str) -> list[Recorded]:
        """Return the events of the last minutes about an object, the newest first."""
        with self._lock:
            return self._series.about(kind, namespace, name)

    def _upkeep(self) -> None:
        """Write heartbeats of open series and final counts of ended ones; called on the sink's thread."""
        with self._lock:
            for event, permit in self._series.upkeep(self._clock.time()):
                self._sink.submit(event, permit)

    def _name(self, name: str, now: float) -> str:
        # Begins with the object's name; the number makes it unique.
        number = int(now * 1_000_000_000) + next(self._numbers)
        return f"{_NOT_IN_NAMES.sub('-', name.lower())[:230]}.{number:x}"


class PluginEvents:
    """The events of one plugin: `ctx.events` and `plugin.events`. Callable from any thread; never blocks or fails."""

    def __init__(self, recorder: EventRecorder, controller: str, permit: Permit | None = None) -> None:
        """Record as `controller`, the name of a plugin; `permit` is asked before each event is sent."""
        self._recorder = recorder
        self._controller = controller
        self._permit = permit

    def normal(
        self,
        obj: Object | Mapping[str, Any],
        reason: str,
        message: str,
        *,
        action: str | None = None,
        related: Object | Mapping[str, Any] | None = None,
    ) -> None:
        """Record an event of type Normal; `reason` is one word in CamelCase, `action` is the action taken."""
        self._record(obj, "Normal", reason, message, action=action, related=related)

    def warning(
        self,
        obj: Object | Mapping[str, Any],
        reason: str,
        message: str,
        *,
        action: str | None = None,
        related: Object | Mapping[str, Any] | None = None,
    ) -> None:
        """Record an event of type Warning."""
        self._record(obj, "Warning", reason, message, action=action, related=related)

    def _record(self, *event: Any, **options: Any) -> None:
        self._recorder.record(self._controller, *event, **options, permit=self._permit)


def reference(obj: Object | Mapping[str, Any]) -> dict[str, str]:
    """Return the ObjectReference of an object, without empty parts."""
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
    if not isinstance(metadata, Mapping):
        raise TypeError(f"an event needs an object with metadata, not a {type(obj).__name__}")
    parts = {name: obj.get(name) for name in ("apiVersion", "kind")}
    parts |= {name: metadata.get(name) for name in ("namespace", "name", "uid", "resourceVersion")}
    return {name: value for name, value in parts.items() if value}


def _shortened(note: str) -> str:
    encoded = note.encode("utf-8", "replace")
    if len(encoded) <= MAX_NOTE_BYTES:
        return encoded.decode()
    return encoded[: MAX_NOTE_BYTES - 3].decode("utf-8", "ignore") + "..."
