"""Requests as steps, which a thread or an event loop carries out: what waits for several is implemented once."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

import msgspec

from ctrlhost.errors import BlockingCall

_C = TypeVar("_C")
_P = ParamSpec("_P")
_R = TypeVar("_R")


class Sender(Protocol):
    """The part of a transport that carries out a request."""

    def send(self, request: Any) -> Any:
        """Return the response."""

    def send_async(self, request: Any) -> Awaitable[Any]:
        """Return the response to a coroutine."""


class Send(msgspec.Struct, frozen=True):
    """A step that sends a request; its outcome is the response."""

    transport: Sender
    request: Any


class Pause(msgspec.Struct, frozen=True):
    """A step that waits for some seconds."""

    seconds: float


#: Yields steps and is sent the outcomes: a `Response` for `Send`, None for `Pause`.
Steps: TypeAlias = Generator[Send | Pause, Any, _R]


#: In the tasks of an `async def` whose event loop a blocking call would stop: what to use instead; else None.
awaiting: ContextVar[str | None] = ContextVar("ctrlhost_awaiting", default=None)


def may_block() -> None:
    """Raise BlockingCall on the event loop of an `async def` that must not block it."""
    instead = awaiting.get()
    if instead is not None and asyncio._get_running_loop() is not None:  # noqa: SLF001 - public, and does not raise
        raise BlockingCall(f"a blocking call in an `async def`: {instead}", hint=instead)


def do(step: Send | Pause) -> Any:
    """Carry out one step in this thread."""
    if isinstance(step, Pause):
        time.sleep(step.seconds)
        return None
    return step.transport.send(step.request)


def carry_out(steps: Generator[Any, Any, _R], do: Callable[[Any], Any] = do) -> _R:
    """Carry out steps in this thread, each by `do`, and return what they return.

    BlockingCall on an event loop that must not be blocked.
    """
    may_block()
    try:
        step = next(steps)
        while True:
            try:
                outcome = do(step)
            except BaseException as error:  # noqa: BLE001 - the steps handle it, or raise it again
                step = steps.throw(error)
            else:
                step = steps.send(outcome)
    except StopIteration as end:
        result: _R = end.value
        return result


async def do_async(step: Send | Pause) -> Any:
    """Carry out one step on this event loop."""
    if isinstance(step, Pause):
        await asyncio.sleep(step.seconds)
        return None
    return await step.transport.send_async(step.request)


async def carry_out_async(steps: Generator[Any, Any, _R], do: Callable[[Any], Awaitable[Any]] = do_async) -> _R:
    """Carry out steps on this event loop, each by `do`, and return what they return."""
    try:
        step = next(steps)
        while True:
            try:
                outcome = await do(step)
            except BaseException as error:  # noqa: BLE001 - the steps handle it, or raise it again
                step = steps.throw(error)
            else:
                step = steps.send(outcome)
    except StopIteration as end:
        result: _R = end.value
        return result


def verb(steps: Callable[Concatenate[_C, _P], Steps[_R]]) -> Callable[Concatenate[_C, _P], _R]:
    """Return a method that carries out the steps in its caller's thread; `steps_of` returns the steps again."""

    @functools.wraps(steps)
    def run(self: _C, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return carry_out(steps(self, *args, **kwargs))

    returns = str(steps.__annotations__["return"]).removeprefix("Steps[").removesuffix("]")
    run.__annotations__ = {**steps.__annotations__, "return": returns}
    run.__signature__ = inspect.signature(steps).replace(return_annotation=returns)  # type: ignore[attr-defined]
    return run


def steps_of(method: Callable[Concatenate[_C, _P], _R]) -> Callable[Concatenate[_C, _P], Steps[_R]]:
    """Return the steps of a method that `verb` made."""
    steps: Callable[Concatenate[_C, _P], Steps[_R]] = inspect.unwrap(method)
    return steps
