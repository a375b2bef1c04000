"""Events about objects, for users: `kubectl describe` shows them. Written through events.k8s.io/v1 only.

Recording never blocks and never fails: a background thread writes the events. Equal events become one event with a
series; further events of an object that has too many are dropped.
"""

from __future__ import annotations

import itertools
import re
import socket
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ctrlhost.clock import micro_time
from ctrlhost.events.correlator import Correlator
from ctrlhost.events.sink import EventSink

if TYPE_CHECKING:
    from ctrlhost.cache import Object
    from ctrlhost.client import Client
    from ctrlhost.clock import Clock

#: Limits of the API, in characters for the reason and in bytes for the note.
MAX_REASON, MAX_NOTE_BYTES = 128, 1024
_NOT_IN_NAMES = re.compile(r"[^a-z0-9.-]+")


class EventRecorder:
    """Records the events of a host. All methods may be called from any thread."""

    def __init__(self, client: Client, clock: Clock, *, host: str | None = None) -> None:
        """Write with `client`; `host` distinguishes the events of this process from those of others."""
        self._clock = clock
        self._host = host or socket.gethostname()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._sink = EventSink(client, clock, self._upkeep)
        self._series = Correlator(clock)

    def start(self) -> None:
        """Start to write events, including those recorded before."""
        self._sink.start()

    def stop(self, timeout: float) -> bool:
        """Write the remaining events and series; return whether that took at most `timeout` real seconds."""
        with self._lock:
            for event in self._series.unwritten():
                self._sink.submit(event)
        return self._sink.stop(timeout)

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
    ) -> None:
        """Record an event about `obj`, reported by `controller`."""
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
            write = self._series.observe(event, now)
            if write is not None:
                self._sink.submit(write)

    def _upkeep(self) -> None:
        """Write heartbeats of open series and final counts of ended ones; called on the sink's thread."""
        with self._lock:
            for event in self._series.upkeep(self._clock.time()):
                self._sink.submit(event)

    def _name(self, name: str, now: float) -> str:
        # Begins with the object's name; the number makes it unique.
        number = int(now * 1_000_000_000) + next(self._numbers)
        return f"{_NOT_IN_NAMES.sub('-', name.lower())[:230]}.{number:x}"


class PluginEvents:
    """The events of one plugin: `ctx.events` and `plugin.events`. Callable from any thread; never blocks or fails."""

    def __init__(self, recorder: EventRecorder, controller: str) -> None:
        """Record as `controller`, the name of a plugin."""
        self._recorder = recorder
        self._controller = controller

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
        self._recorder.record(self._controller, obj, "Normal", reason, message, action=action, related=related)

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
        self._recorder.record(self._controller, obj, "Warning", reason, message, action=action, related=related)


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
