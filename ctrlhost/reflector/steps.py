"""What reflectors wait for, as steps, so that a reflector needs no thread: see `driver`."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ctrlhost.transport.steps import Pause, Send

if TYPE_CHECKING:
    from ctrlhost.cache import SharedInformer
    from ctrlhost.transport.interface import Body, HttpRequest, Stream, Transport

_R = TypeVar("_R")


class Stopped(Exception):
    """The reflector is stopping."""


class RangesChanged(Exception):
    """Other ranges of a shard are wanted by now than those of the list in progress."""


@dataclass(frozen=True, slots=True)
class Open:
    """A step that opens a stream; its outcome is the stream."""

    transport: Transport
    request: HttpRequest


@dataclass(frozen=True, slots=True)
class Read:
    """A step that waits for news of a stream on its way to an engine, which has begun the page or the watch.

    The outcome for a page is its `ListMeta`, or None while there is more; the last page becomes the content. Otherwise
    it is a `WatchProgress`, or None at the end; with their final bookmark the initial events become the content.
    """

    stream: Stream
    engine: SharedInformer
    body: Body


@dataclass(frozen=True, slots=True)
class BackOff:
    """A step that waits for some seconds, or until the reflector is woken."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Call:
    """A step that calls a function, which may block."""

    function: Callable[[], None]


Steps: TypeAlias = Generator[Open | Read | BackOff | Call | Send | Pause, Any, _R]
