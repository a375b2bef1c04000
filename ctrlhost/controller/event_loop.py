"""The event loop of a plugin: one thread, started when the plugin first needs it, and reported while it is blocked."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from ctrlhost.entries import stack_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from concurrent.futures import Future

    from ctrlhost.entries import Entries

log = logging.getLogger("ctrlhost.host")

#: Seconds between two checks of a loop on which something runs.
_PERIOD = 0.5
#: Seconds that a loop may be blocked until it is reported, and until the plugin fails.
_REPORTED_AFTER = 1.0
_ABANDONED_AFTER = 30.0


class PluginLoop:
    """An asyncio loop on its own thread, so that a plugin's blocking call does not delay other plugins."""

    def __init__(self, plugin: str, entries: Entries | None = None) -> None:
        """Prepare; the first use starts the thread. A loop that is blocked is reported to `entries`."""
        self._plugin = plugin
        self._entries = entries
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._ended = False
        self._turns: _Turns | None = None

    @property
    def thread(self) -> int:
        """The identifier of the loop's thread; 0 before the first use."""
        thread = self._thread
        return thread.ident or 0 if thread is not None else 0

    @property
    def blocked(self) -> float:
        """The seconds for which the loop has not turned; 0 while it turns."""
        turns = self._turns
        return turns.blocked if turns is not None else 0.0

    def start(self) -> None:
        """Start the thread unless it runs; OSError without free file descriptors."""
        self._started()

    def submit(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Run a coroutine on the loop; callable from any thread. RuntimeError after `stop`."""
        try:
            loop = self._started()
        except BaseException:
            coroutine.close()
            raise
        return asyncio.run_coroutine_threadsafe(coroutine, loop)

    def call(self, function: Callable[..., Any], *args: Any) -> None:
        """Schedule a call on the loop's thread; callable from any thread. RuntimeError after `stop`."""
        self._started().call_soon_threadsafe(function, *args)

    def stop(self, timeout: float) -> bool:
        """Cancel all tasks and end the thread for good; return whether it ended within `timeout` real seconds."""
        with self._lock:
            self._ended = True
            loop, thread, turns = self._loop, self._thread, self._turns
            self._loop = self._thread = self._turns = None
        if loop is None or thread is None:
            return True
        if turns is not None:
            turns.end()
        self._ending.set()
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout)
        return not thread.is_alive()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._ended:
                raise RuntimeError(f"plugin {self._plugin} has ended: nothing more runs on its event loop")
            if self._loop is None:
                # Not the loop of the event loop policy, which any plugin may set for the whole process.
                self._loop = asyncio.SelectorEventLoop()
                name, arguments = f"{self._plugin}/loop", (self._plugin, self._loop, self._ending)
                self._thread = threading.Thread(target=_run, args=arguments, name=name, daemon=True)
                self._thread.start()
                if self._entries is not None:
                    self._turns = _Turns(self._plugin, self._loop, self._thread, self._entries)
            return self._loop


class _Turns:
    """Checks that a loop turns, as long as a task runs on it. Checked on a thread of the host."""

    def __init__(
        self, plugin: str, loop: asyncio.AbstractEventLoop, thread: threading.Thread, entries: Entries
    ) -> None:
        #: The seconds for which the loop has not turned; 0 while it turns.
        self.blocked = 0.0
        self._plugin = plugin
        self._loop = loop
        self._thread = thread
        self._entries = entries
        #: Set by the loop when it turns; and when it was asked to, in seconds of `time.monotonic`.
        self._turned = threading.Event()
        self._turned.set()
        self._requested_at = 0.0
        self._reported = False
        self._failed = False
        self.end = entries.watch(self._check, _PERIOD)

    def _check(self, excused: float) -> None:
        if self._turned.is_set():
            self._recover()
            # The loop may be closed, or begin tasks so fast that they cannot be listed: it turns then.
            with contextlib.suppress(RuntimeError):
                if asyncio.all_tasks(self._loop):
                    turned, self._requested_at = threading.Event(), time.monotonic()
                    self._loop.call_soon_threadsafe(turned.set)
                    self._turned = turned
            return
        self._requested_at += excused
        seconds = time.monotonic() - self._requested_at
        if seconds < _REPORTED_AFTER:
            return
        self.blocked = seconds
        if not self._reported:
            self._reported = True
            stack = stack_of(self._thread.ident or 0)
            extra = {"plugin": self._plugin, "seconds": round(seconds, 3), "stack": stack}
            log.warning("plugin %s: its event loop is blocked for %.1f s", self._plugin, seconds, extra=extra)
            self._entries.degrade("blocked-loop", "its event loop does not turn; the log has the stack")
        if seconds >= _ABANDONED_AFTER and not self._failed:
            self._failed = True
            self._entries.fail(f"its event loop has been blocked for {_ABANDONED_AFTER:g} s")

    def _recover(self) -> None:
        if self._reported:
            log.warning("plugin %s: its event loop turns again after %.1f s", self._plugin, self.blocked)
            self._entries.recover("blocked-loop")
        self._reported, self.blocked = False, 0.0


def _run(plugin: str, loop: asyncio.AbstractEventLoop, ending: threading.Event) -> None:
    """Run the loop until `ending` is set, then cancel the remaining tasks."""
    asyncio.set_event_loop(loop)
    while not ending.is_set():
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            # asyncio raises these out of the loop. The awaiter also receives the error; all other tasks continue.
            log.error(
                "plugin %s: %s in its event loop; the loop continues", plugin, type(error).__name__, exc_info=error
            )
        else:
            if not ending.is_set():
                log.error("plugin %s stopped its event loop; the loop continues", plugin)
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        _finish(loop, asyncio.gather(*tasks, return_exceptions=True))
    _finish(loop, loop.shutdown_asyncgens())
    _finish(loop, loop.shutdown_default_executor())
    loop.close()


def _finish(loop: asyncio.AbstractEventLoop, rest: Awaitable[Any]) -> None:
    with contextlib.suppress(SystemExit, KeyboardInterrupt):
        loop.run_until_complete(rest)
