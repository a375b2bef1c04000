"""Events about objects, for people: `kubectl describe` shows them. Written through events.k8s.io/v1 only.

Recording never blocks and never fails: it notes the event, and a thread of its own writes it. Equal events become one
event with a series; an object that has too many of them loses the rest.
"""

from __future__ import annotations

import itertools
import re
import socket
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ctrlhost.events.correlator import Correlator
from ctrlhost.events.sink import EventSink

if TYPE_CHECKING:
    from ctrlhost.cache import Object
    from ctrlhost.client import Client
    from ctrlhost.clock import Clock

#: What the API allows, in characters for the first and in bytes for the note.
MAX_REASON, MAX_NOTE_BYTES = 128, 1024
_NOT_IN_NAMES = re.compile(r"[^a-z0-9.-]+")


class EventRecorder:
    """Records the events of a whole host. Methods may be called from any thread."""

    def __init__(self, client: Client, clock: Clock, *, host: str | None = None) -> None:
        """Write with this client; `host` tells this process's events from another one's."""
        self._clock = clock
        self._host = host or socket.gethostname()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._sink = EventSink(client, clock, self._upkeep)
        self._series = Correlator(clock)

    def start(self) -> None:
        """Begin to write what is recorded; what was recorded before is kept until then."""
        self._sink.start()

    def stop(self, timeout: float) -> bool:
        """Write what is left, with the final counts of series; say whether all went out in `timeout` real seconds."""
        with self._lock:
            for event in self._series.unsaid():
                self._sink.submit(event, patch=True)
        return self._sink.stop(timeout)

    def idle(self) -> bool:
        """Say whether nothing is left to write now; writes that wait for a retry do not count."""
        return self._sink.idle()

    @property
    def dropped(self) -> int:
        """How many events were not written: too many of one object, too many at once, or refused by the server."""
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
        """Note an event about `obj`; `controller` is who says so."""
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
            verdict = self._series.observe(event, now)
            if verdict is not None:
                self._sink.submit(verdict.event, patch=verdict.patch)

    def _upkeep(self) -> None:
        """Write heartbeats of live series and final counts of ended ones; called by the sink's thread."""
        with self._lock:
            for event in self._series.upkeep(self._clock.time()):
                self._sink.submit(event, patch=True)

    def _name(self, name: str, now: float) -> str:
        # The object's name says whose event it is; the number makes it the only one of that name.
        number = int(now * 1_000_000_000) + next(self._numbers)
        return f"{_NOT_IN_NAMES.sub('-', name.lower())[:230]}.{number:x}"


class PluginEvents:
    """A plugin's face of the recorder: `ctx.events` and `plugin.events`."""

    def __init__(self, recorder: EventRecorder, controller: str) -> None:
        """Record in the name of a plugin."""
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
        """Record that something happened as it should; `reason` is one word in CamelCase, `action` what was done."""
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
        """Record that something went wrong, or may soon."""
        self._recorder.record(self._controller, obj, "Warning", reason, message, action=action, related=related)


def reference(obj: Object | Mapping[str, Any]) -> dict[str, str]:
    """Give the ObjectReference of an object; empty parts are left out."""
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
    if not isinstance(metadata, Mapping):
        raise TypeError(f"an event is about an object with metadata, not a {type(obj).__name__}")
    parts = {
        "apiVersion": obj.get("apiVersion"),
        "kind": obj.get("kind"),
        "namespace": metadata.get("namespace"),
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
        "resourceVersion": metadata.get("resourceVersion"),
    }
    return {name: value for name, value in parts.items() if value}


def micro_time(seconds: float) -> str:
    """Write seconds since the epoch as the API's MicroTime, which has exactly six digits after the point."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _shortened(note: str) -> str:
    encoded = note.encode("utf-8", "replace")
    if len(encoded) <= MAX_NOTE_BYTES:
        return encoded.decode()
    return encoded[: MAX_NOTE_BYTES - 3].decode("utf-8", "ignore") + "..."
