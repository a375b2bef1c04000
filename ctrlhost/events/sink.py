"""The thread that writes events to the API server."""

from __future__ import annotations

import logging
import random
import threading
from collections import deque
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost.client.governed import GovernedTransport
from ctrlhost.errors import ApiError, ConfigError, NotFound, NotLeading, PluginRestarted

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.transport.interface import Permit

log = logging.getLogger("ctrlhost.events")

#: Who reports the event that is written on this thread, and the key of the object that it is about.
writing: ContextVar[tuple[str, str] | None] = ContextVar("writing", default=None)

#: As in client-go: queued writes, tries of each, seconds between two tries, and the random part of these.
QUEUE_LENGTH, TRIES, RETRY_SECONDS, JITTER = 1000, 12, 10.0, 0.25
#: Seconds between two checks for series that are due.
_UPKEEP_SECONDS = 60.0


@dataclass(slots=True)
class _Write:
    event: dict[str, Any]
    permit: Permit | None
    tries: int = 0
    due: float = 0.0


class EventSink:
    """Writes one event at a time; a failed one waits for its next try while others continue."""

    def __init__(self, client: Client, clock: Clock, upkeep: Callable[[], None]) -> None:
        """Write with `client`; call `upkeep` about once a minute, on the sink's thread."""
        self._client = client
        self._clock = clock
        self._upkeep = upkeep
        self._lock = threading.Lock()
        self._queue: deque[_Write] = deque()
        self._retries: list[_Write] = []
        self._writing = False
        self._wake = threading.Event()
        self._stopping = False
        self._abandoned = False
        self._thread: threading.Thread | None = None
        self.dropped = 0

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="event sink", daemon=True)
        self._thread.start()

    def submit(self, event: dict[str, Any], permit: Permit | None = None) -> None:
        """Enqueue an event, a new one or a written one with its `series`; never blocks.

        It is dropped if the `permit` is refused when it would be sent.
        """
        with self._lock:
            if len(self._queue) >= QUEUE_LENGTH or self._abandoned:
                self.dropped += 1
                return
            self._queue.append(_Write(event, permit))
        self._wake.set()

    def idle(self) -> bool:
        """Return whether there is nothing to write now."""
        now = self._clock.now()
        with self._lock:
            due = any(retry.due <= now for retry in self._retries)
            if due:
                # A manual clock may have advanced just before the thread began to wait for it.
                self._wake.set()
            return not (self._queue or self._writing or due)

    def stop(self, timeout: float) -> bool:
        """Write the queue, retry failed events once; return whether that took at most `timeout` real seconds."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(max(timeout, 0.0))
        with self._lock:
            self._abandoned = True
            left = len(self._queue) + len(self._retries)
            self.dropped += left
            self._queue.clear()
            self._retries.clear()
        if left:
            log.warning("%d events not written before shutdown", left)
        return not left and (self._thread is None or not self._thread.is_alive())

    def _run(self) -> None:
        next_upkeep = self._clock.now() + _UPKEEP_SECONDS
        while True:
            write, wait = self._next()
            if write is not None:
                self._write(write)
                continue
            if self._stopping:
                return
            left = next_upkeep - self._clock.now()
            if left <= 0:
                self._upkeep()
                next_upkeep = self._clock.now() + _UPKEEP_SECONDS
                continue
            self._clock.wait(self._wake, left if wait is None else min(wait, left))
            self._wake.clear()

    def _next(self) -> tuple[_Write | None, float | None]:
        """Return the next write, else the seconds until there is one, None if unknown."""
        now = self._clock.now()
        with self._lock:
            # A shutdown does not wait for the time of a retry.
            ready = next((retry for retry in self._retries if retry.due <= now or self._stopping), None)
            if ready is not None:
                self._retries.remove(ready)
            elif self._queue:
                ready = self._queue.popleft()
            self._writing = ready is not None
            if ready is None and self._retries:
                return None, max(min(retry.due for retry in self._retries) - now, 0.0)
            return ready, None

    def _write(self, write: _Write) -> None:
        write.tries += 1
        again = False
        try:
            self._send(write)
        except (NotLeading, PluginRestarted) as error:
            log.debug("event %s dropped: %s", write.event["metadata"]["name"], error)
            self.dropped += 1
        except (ApiError, ConfigError) as error:
            # The server, or the configuration, would reject it again.
            log.warning("event %s rejected: %s", write.event["metadata"]["name"], error)
            self.dropped += 1
        except Exception as error:  # noqa: BLE001 - a connection may fail in many ways, and an event must not end the thread
            again = write.tries < TRIES and not self._stopping
            if not again:
                log.warning("event %s dropped after %d tries: %s", write.event["metadata"]["name"], write.tries, error)
                self.dropped += 1
        with self._lock:
            self._writing = False
            if again:
                spread = RETRY_SECONDS * JITTER * random.random()  # noqa: S311 - no secret
                write.due = self._clock.now() + RETRY_SECONDS + spread
                self._retries.append(write)

    def _send(self, write: _Write) -> None:
        event, client = write.event, self._client
        about = event["regarding"]
        writing.set((event["reportingController"], "/".join(filter(None, (about.get("namespace"), about["name"])))))
        if write.permit is not None:
            client = client.derive(transport=GovernedTransport(client.transport, None, write.permit, write.permit))
        if "series" in event:
            metadata, change = event["metadata"], {"series": event["series"]}
            # The event may have expired, or its creation failed: the series becomes a new event then.
            with suppress(NotFound):
                client.patch(event["apiVersion"], "Event", metadata["name"], metadata["namespace"], change)
                return
        client.create(event)
