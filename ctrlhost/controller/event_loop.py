"""The event loop of a plugin: one thread, started when the plugin first needs it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from concurrent.futures import Future

log = logging.getLogger("ctrlhost.host")


class PluginLoop:
    """An asyncio loop on its own thread, so that a plugin's blocking call does not delay other plugins."""

    def __init__(self, plugin: str) -> None:
        """Prepare; the first use starts the thread."""
        self._plugin = plugin
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()

    def submit(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Run a coroutine on the loop; callable from any thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._started())

    def call(self, function: Callable[..., Any], *args: Any) -> None:
        """Schedule a call on the loop's thread; callable from any thread."""
        self._started().call_soon_threadsafe(function, *args)

    def stop(self, timeout: float) -> bool:
        """Cancel all tasks and end the thread; return whether it ended within `timeout` real seconds."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return True
        self._ending.set()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout)
        return not thread.is_alive()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop, self._ending = asyncio.new_event_loop(), threading.Event()
                name, arguments = f"{self._plugin} event loop", (self._plugin, self._loop, self._ending)
                self._thread = threading.Thread(target=_run, args=arguments, name=name, daemon=True)
                self._thread.start()
            return self._loop


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
