"""The event loop of a plugin: one thread, started when the plugin first needs it."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future


class PluginLoop:
    """An asyncio loop on a thread of its own, so that one plugin's blocking call stalls no other plugin."""

    def __init__(self, plugin: str) -> None:
        """Name the plugin; nothing is started yet."""
        self._plugin = plugin
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def submit(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Run a coroutine on the loop; from any thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._started())

    def call(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function on the loop's thread, soon; from any thread."""
        self._started().call_soon_threadsafe(function, *args)

    def stop(self, timeout: float) -> bool:
        """Cancel what still runs, and end the thread; say whether it ended within `timeout` real seconds."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return True
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout)
        return not thread.is_alive()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run, args=(self._loop,), name=f"{self._plugin} event loop", daemon=True
                )
                self._thread.start()
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Be the loop's thread: run until it is stopped, then let what is left end by cancellation."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
