"""What carries out the steps of reflectors: one event loop for most of them, or a thread of their own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from typing import TYPE_CHECKING, Any, Protocol, cast

from ctrlhost.client.steps import carry_out, carry_out_async, do, do_async
from ctrlhost.reflector.steps import BackOff, Call, Open, Read
from ctrlhost.transport.answers import Awaited
from ctrlhost.transport.per_process import PerProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.clock import Clock
    from ctrlhost.reflector.steps import Steps
    from ctrlhost.transport.interface import FollowedStream, FollowedTransport

log = logging.getLogger("ctrlhost.informers.reflector")


def _start() -> asyncio.AbstractEventLoop:
    """Start the thread of the reflectors, and return its loop."""
    # Not by the policy, which a plugin may have set.
    made = asyncio.SelectorEventLoop()
    threading.Thread(target=_serve, args=(made,), name="ctrlhost reflectors", daemon=True).start()
    return made


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


class Driver(Protocol):
    """Carries out the steps of one reflector. All methods may be called from any thread."""

    def start(self) -> None:
        """Begin with the first step."""

    def wake(self) -> None:
        """End the back-off, or the next one."""

    def join(self, timeout: float | None) -> bool:
        """Wait at most `timeout` seconds for the end of the steps; return whether they have ended, or never began."""


class OnLoop:
    """A driver on the loop that all reflectors share. The decode threads read the streams of a `FollowedTransport`."""

    def __init__(self, steps: Steps[None]) -> None:
        """Prepare; starts nothing."""
        self._steps = steps
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
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
        if self._loop is None:
            self._woken.set()
        else:
            self._loop.call_soon_threadsafe(self._woken.set)

    def join(self, timeout: float | None) -> bool:
        """Wait at most `timeout` seconds for the end of the steps; return whether they have ended, or never began."""
        return self._loop is None or self._ended.wait(timeout)

    async def _do(self, step: Any) -> Any:
        match step:
            case Open(transport, path, query, headers, timeouts):
                followed = cast("FollowedTransport", transport)
                return await followed.stream_async(path, query=query, headers=headers, timeouts=timeouts)
            case Read(stream, engine, body):
                return await cast("FollowedStream", stream).follow(engine, body)
            case BackOff(seconds):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), seconds)
                self._woken.clear()
            case Call(function):
                await self._call(function)
            case _:
                return await do_async(step)
        return None

    @staticmethod
    async def _call(function: Callable[[], None]) -> None:
        # No executor: its threads are shared, and the end of the process would wait for them.
        ended = Awaited(asyncio.get_running_loop())

        def run() -> None:
            _called(function)
            ended.done(None, None)

        try:
            threading.Thread(target=run, name="ctrlhost reflector callback", daemon=True).start()
        except RuntimeError:
            log.exception("there is no thread for a callback of a reflector")
        else:
            await ended.future


class OnThread:
    """A driver on a daemon thread of its own, which also reads the streams.

    For transforms, which would hold up decode threads; for transports written in Python; and for clocks of tests.
    """

    def __init__(self, steps: Steps[None], clock: Clock, name: str) -> None:
        """Prepare; starts nothing."""
        self._clock = clock
        self._woken = threading.Event()
        self._thread = threading.Thread(target=lambda: carry_out(steps, self._do), name=name, daemon=True)

    def start(self) -> None:
        """Begin with the first step."""
        self._thread.start()

    def wake(self) -> None:
        """End the back-off, or the next one."""
        self._woken.set()

    def join(self, timeout: float | None) -> bool:
        """Wait at most `timeout` seconds for the end of the steps; return whether they have ended, or never began."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _do(self, step: Any) -> Any:
        if isinstance(step, BackOff):
            self._clock.wait(self._woken, step.seconds)
            self._woken.clear()
            return None
        return do_blocking(step)


def do_blocking(step: Any) -> Any:
    """Carry out a step in this thread."""
    match step:
        case Open(transport, path, query, headers, timeouts):
            return transport.stream(path, query=query, headers=headers, timeouts=timeouts)
        case Read():
            return _read(step)
        case Call(function):
            _called(function)
            return None
        case _:
            return do(step)


def _read(step: Read) -> Any:
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
