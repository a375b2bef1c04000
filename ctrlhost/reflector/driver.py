"""What carries out the steps of reflectors: one event loop for all of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ctrlhost.clock import SystemClock
from ctrlhost.reflector.steps import BackOff, Call, Open, Read
from ctrlhost.transport.answers import in_thread
from ctrlhost.transport.per_process import PerProcess
from ctrlhost.transport.steps import carry_out_async, do_async

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.clock import Clock
    from ctrlhost.reflector.steps import Steps
    from ctrlhost.transport.followed import NativeStream

log = logging.getLogger("ctrlhost.informers.reflector")


def _start() -> asyncio.AbstractEventLoop:
    """Start the thread of the reflectors, and return its loop."""
    # Not by the policy, which a plugin may have set.
    loop = asyncio.SelectorEventLoop()
    threading.Thread(target=_serve, args=(loop,), name="ctrlhost reflectors", daemon=True).start()
    return loop


_loop = PerProcess[asyncio.AbstractEventLoop](_start)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        try:
            loop.run_forever()
        except BaseException:
            # What ends one reflector, as a SystemExit, must not end the others.
            log.exception("a reflector ended unexpectedly; the others continue")


def _called(function: Callable[[], None]) -> None:
    """Call a function; what it raises is logged."""
    try:
        function()
    except BaseException:
        log.exception("a callback of a reflector failed")


class Driver:
    """Carries out the steps of one reflector on the loop that all share. All methods may be called from any thread."""

    def __init__(self, steps: Steps[None], clock: Clock, name: str, *, native: bool) -> None:
        """Prepare; starts nothing. With `native`, the decode threads of the core read the streams.

        Otherwise a thread of this `name` reads each piece: for transforms, which would hold up the decode threads, for
        transports in Python, and for clocks of tests, which stamp what arrives.
        """
        self._steps = steps
        self._clock = clock
        self._name = name
        self._native = native
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        #: The same for coroutines, and for the clocks of tests.
        self._woken, self._clock_woken = asyncio.Event(), threading.Event()
        self._ended = threading.Event()

    def start(self) -> None:
        """Begin with the first step."""
        self._loop = _loop.get()
        self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        # The loop refers to its tasks weakly.
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            await carry_out_async(self._steps, self._do)
        finally:
            self._ended.set()
            self._task = None

    def wake(self) -> None:
        """End the back-off, or the next one."""
        self._clock_woken.set()
        if self._loop is None:
            self._woken.set()
        else:
            self._loop.call_soon_threadsafe(self._woken.set)

    def join(self, timeout: float | None) -> bool:
        """Wait at most `timeout` seconds for the end of the steps; return whether they have ended, or never began."""
        return self._loop is None or self._ended.wait(timeout)

    async def _do(self, step: Any) -> Any:
        match step:
            case Open(transport, request):
                return await transport.open_async(request)
            case Read(stream, engine, body) if self._native:
                return await cast("NativeStream", stream).follow(engine, body)
            case Read():
                return await in_thread(partial(_read, step), self._name)
            case BackOff(seconds):
                await self._back_off(seconds)
            case Call(function):
                try:
                    await in_thread(partial(_called, function), "ctrlhost reflector callback")
                except RuntimeError:
                    log.exception("there is no thread for a callback of a reflector")
            case _:
                return await do_async(step)
        return None

    async def _back_off(self, seconds: float) -> None:
        if type(self._clock) is SystemClock:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), seconds)
        else:
            await in_thread(partial(self._clock.wait, self._clock_woken, seconds), self._name)
        self._woken.clear()
        self._clock_woken.clear()


def _read(step: Read) -> Any:
    """Pass the next piece of a stream on to the engine, in this thread."""
    engine, chunk = step.engine, step.stream.read()
    if step.body == "page":
        if chunk:
            engine.feed_list(chunk)
            return None
        meta = engine.end_page()
        if not meta.continue_:
            engine.replace(meta.resource_version)
            engine.process()
        return meta
    if not chunk:
        return None
    progress = engine.feed_watch(chunk)
    if step.body == "initial" and progress.initial_events_end:
        engine.replace(progress.resource_version)
    engine.process()
    return progress
