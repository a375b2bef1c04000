"""The end of events in a dry run: the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.client.logged_once import LoggedOnce
from ctrlhost.errors import NotLeading, PluginRestarted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.transport.interface import Permit


class EventLog:
    """Logs events in place of an `EventSink`, each once. Methods may be called from any thread."""

    #: Nothing is dropped for want of room.
    dropped = 0

    def __init__(self) -> None:
        """Start without events."""
        self._lines = LoggedOnce()

    def start(self) -> None:
        """Do nothing."""

    def submit(self, event: Mapping[str, Any], permit: Permit | None = None) -> None:
        """Log a new event; the series of a known one is not logged again."""
        if "series" in event:
            return
        try:
            if permit is not None:
                permit()
        except (NotLeading, PluginRestarted):
            return
        about = event["regarding"]
        subject = "/".join(filter(None, (about.get("namespace"), about.get("name"))))
        what = f"{event['type']} {event['reason']} about {about.get('kind')} {subject}"
        self._lines.info(f"dry run: would record event {what}: {event.get('note', '')}")

    def idle(self) -> bool:
        """Return True: nothing waits."""
        return True

    def stop(self, timeout: float) -> bool:  # noqa: ARG002 - as that of an `EventSink`
        """Return True: nothing is left."""
        return True
