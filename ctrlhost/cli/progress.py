"""Progress bars for slow first lists, on a terminal; otherwise the log reports their progress."""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctrlhost.informers import InformerStatus

#: Seconds that the lists must take before bars are shown.
_SHOW_AFTER = 1.0
_UPDATE_INTERVAL = 0.2


class CurrentStderr:
    """A stream to the current `sys.stderr`, which the bars replace, so that log lines do not disturb them."""

    def write(self, text: str) -> int:
        """Write to stderr."""
        return sys.stderr.write(text)

    def flush(self) -> None:
        """Flush stderr."""
        sys.stderr.flush()

    def isatty(self) -> bool:
        """Return whether stderr is a terminal."""
        return sys.stderr.isatty()


def can_draw(stream: TextIO) -> bool:
    """Return whether `stream` is a terminal and `rich` is installed (`pip install ctrlhost[progress]`)."""
    return stream.isatty() and importlib.util.find_spec("rich") is not None


class ListBars:
    """Bars for the first lists in progress, updated by their own thread."""

    def __init__(self, statuses: Callable[[], Iterable[InformerStatus]], console: Any = None) -> None:
        """Show the lists of `statuses` on `console`, by default a `rich` console of stderr."""
        self._statuses = statuses
        self._console = console
        self._stop = threading.Event()
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        #: When each list was first seen, and its length then.
        self._begun: dict[str, tuple[float, int]] = {}
        self._since: float | None = None
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and remove the bars."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(1.0)
        self._close()

    def _run(self) -> None:
        while not self._stop.wait(_UPDATE_INTERVAL):
            self.update()

    def update(self, now: float | None = None) -> None:
        """Update the bars, and remove those of finished lists."""
        now = time.monotonic() if now is None else now
        listing = {status.key: status for status in self._statuses() if status.listing and not status.has_synced}
        if not listing:
            self._since = None
            self._close()
            return
        self._since = now if self._since is None else self._since
        if now - self._since < _SHOW_AFTER:
            return
        if self._bars is None:
            self._bars = _new_bars(self._console)
            self._bars.start()
        for key, status in listing.items():
            if key not in self._tasks:
                self._tasks[key] = self._bars.add_task(f"listing {status.kind}", total=None, rate="")
                self._begun[key] = now, status.listing
            total = None if status.remaining is None else status.listing + status.remaining
            since, before = self._begun[key]
            rate = f"{(status.listing - before) / (now - since):,.0f}/s" if now > since else ""
            self._bars.update(self._tasks[key], completed=status.listing, total=total, rate=rate)
        for key in [key for key in self._tasks if key not in listing]:
            self._bars.remove_task(self._tasks.pop(key))

    def _close(self) -> None:
        bars, self._bars = self._bars, None
        self._tasks.clear()
        if bars is not None:
            bars.stop()


def _new_bars(console: Any) -> Any:
    # Importing takes 0.2 s, so only when there is something to show.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=console or Console(file=sys.stderr),
        transient=True,
    )
