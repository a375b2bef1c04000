"""A stream of the core, which its decode threads pass on to informers without the interpreter."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ctrlhost._core import Following
from ctrlhost.transport.answers import Awaited, answers
from ctrlhost.transport.interface import Stream

if TYPE_CHECKING:
    from ctrlhost._core import HttpStream, ListMeta, SharedInformer, WatchProgress
    from ctrlhost.transport.interface import Body

_REPORT = 5.0
"""Seconds after which the progress of initial events is reported."""


class NativeStream(Stream):
    """A stream over a connection of the core. It is either read or followed."""

    def __init__(self, stream: HttpStream, idle: float, content_type: str = "") -> None:
        """Read `stream`; `idle` is the idle timeout in seconds."""
        #: The response's `Content-Type`, "" if there is none.
        self.content_type = content_type
        self._stream = stream
        self._idle = idle
        self._following: Following | None = None
        #: What the decode threads have been asked and have not answered.
        self._awaited: Awaited | None = None

    @property
    def waiting(self) -> int:
        """The bytes that wait for its reader."""
        return self._stream.waiting

    @property
    def held_back(self) -> float:  # type: ignore[override]
        """Seconds in which the connection was not read because its reader was behind."""
        return self._stream.held_back

    def read(self) -> bytes:
        """Return the next bytes, b"" at the end; see `Stream.read`."""
        try:
            return self._stream.read(self._idle)
        except Exception:
            self.close()
            raise

    async def follow(self, engine: SharedInformer, body: Body) -> WatchProgress | ListMeta | None:
        """Pass everything on to the engine from the first call on, and wait for something to report.

        Returns the metadata of a page at its end. Otherwise what a watch brought, at the latest after some seconds for
        initial events, and None at the end.
        """
        if self._following is None:
            self._following = Following(engine, self._stream, body, self._idle)
        if self._awaited is None:
            self._awaited = Awaited(asyncio.get_running_loop())
            self._following.ask(answers(), self._awaited.done)
        report = self._awaited.future
        if body == "initial":
            await asyncio.wait((report,), timeout=_REPORT)
            if not report.done():
                return self._following.so_far()
        try:
            outcome: WatchProgress | ListMeta | None = await report
        finally:
            self._awaited = None
        return outcome

    def set_idle(self, seconds: float) -> None:
        """Change the idle timeout; see `Stream.set_idle`."""
        self._idle = seconds
        if self._following is not None:
            self._stream.set_idle(seconds)

    def close(self) -> None:
        """Drop the connection and wake the reader; see `Stream.close`."""
        self._stream.close()
