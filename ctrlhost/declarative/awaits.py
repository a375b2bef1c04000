"""Calls in an `async def` that must be awaited: those that were not are found at the end of the run."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ctrlhost.errors import PluginError

if TYPE_CHECKING:
    from types import TracebackType

C = TypeVar("C", bound=type[Any])
R = TypeVar("R")


class Call(Coroutine[Any, Any, R]):
    """A coroutine that knows where it was made, and whether anything has awaited it."""

    __slots__ = ("_closed", "_coroutine", "name", "place", "started")

    def __init__(self, coroutine: Coroutine[Any, Any, R], name: str, place: str) -> None:
        """Wrap a coroutine that has not started."""
        self._coroutine = coroutine
        self._closed = False
        #: The call, such as `ctx.ensure`.
        self.name = name
        #: `FILE:LINE` of the call.
        self.place = place
        self.started = False

    def send(self, value: Any, /) -> Any:
        """Continue, as an event loop does."""
        self._check()
        return self._coroutine.send(value)

    def _check(self) -> None:
        if self._closed:
            # Of a task that begins after its run.
            raise asyncio.CancelledError
        self.started = True

    def throw(self, kind: Any, value: Any = None, _traceback: TracebackType | None = None, /) -> Any:
        """Raise an error where the coroutine waits."""
        self.started = True
        return self._coroutine.throw(kind if value is None else value)

    def close(self) -> None:
        """End the coroutine; nothing is sent if it has not started."""
        self._closed = True
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, R]:
        """Run the coroutine."""
        self._check()
        return self._coroutine.__await__()


class Calls:
    """The calls of one run."""

    __slots__ = ("_calls", "_ended", "_plugin", "_run")

    def __init__(self, plugin: str, run: str = "") -> None:
        """Start without any; `plugin` is the name of the plugin, `run` that of the run for messages."""
        self._plugin = plugin
        self._run = run
        self._calls: list[Call[Any]] = []
        self._ended = False

    def add(self, coroutine: Coroutine[Any, Any, R], name: str, depth: int) -> Call[R]:
        """Remember a call that the function `depth` frames above has made; PluginError after the end of the run."""
        frame = sys._getframe(depth)  # noqa: SLF001 - as `warnings` and `logging` do
        call = Call(coroutine, name, f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
        if self._ended:
            call.close()
            raise PluginError(
                self._plugin,
                f"plugin {self._plugin}: {name}(…) at {call.place}: the run is over{self._run and f': {self._run}'}",
                hint="await each task before the function returns, as `asyncio.TaskGroup` does",
            )
        self._calls.append(call)
        return call

    def end(self) -> list[Call[Any]]:
        """Return the calls that nothing has awaited, after closing them."""
        forgotten = [call for call in self._calls if not call.started]
        for call in forgotten:
            call.close()
        self._calls.clear()
        self._ended = True
        return forgotten


class _HasCalls(Protocol):
    @property
    def _calls(self) -> Calls: ...


def remembers_calls(of: str) -> Callable[[C], C]:
    """Decorate a class whose `_calls` remember each call of its `async def` methods; `of` is the class in messages."""

    def decorate(cls: C) -> C:
        for name in dir(cls):
            function = getattr(cls, name)
            if inspect.iscoroutinefunction(function) and not name.startswith("_"):
                setattr(cls, name, _remembered(function, f"{of}.{name}"))
        return cls

    return decorate


def _remembered(function: Callable[..., Coroutine[Any, Any, R]], name: str) -> Callable[..., Call[R]]:
    @functools.wraps(function)
    def call(self: _HasCalls, *arguments: Any, **options: Any) -> Call[R]:
        return self._calls.add(function(self, *arguments, **options), name, 2)

    return call
