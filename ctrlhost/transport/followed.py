"""A stream of the core, which informers read without the interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost._core import HttpStream, SharedInformer, WatchProgress


class NativeStream:
    """A `Stream` and `FollowedStream` over a connection of the core."""

    def __init__(self, stream: HttpStream, idle: float, content_type: str = "") -> None:
        """Read `stream`; `idle` is the idle timeout in seconds."""
        #: The response's `Content-Type`, "" if there is none.
        self.content_type = content_type
        self._stream = stream
        self._idle = idle
        #: The error that ended the stream, for the call after the one that returned the last progress.
        self._failed: Exception | None = None

    def read(self) -> bytes:
        """Return the next bytes, b"" at the end; see `Stream.read`."""
        try:
            return self._stream.read(self._idle)
        except Exception:
            self.close()
            raise

    def follow(self, engine: SharedInformer, linger: float) -> WatchProgress | None:
        """Pass arriving data to the engine and its handlers; return its progress, None at the end."""
        try:
            failed, self._failed = self._failed, None
            if failed is not None:
                raise failed
            progress = engine.follow_stream(self._stream, self._idle, linger)
        except Exception:
            self.close()
            raise
        if progress is not None:
            self._failed = progress.failed
        return progress

    def feed_list(self, engine: SharedInformer, linger: float) -> bool:
        """Pass on more of a list page, for about `linger` seconds; return False at its end."""
        try:
            return engine.list_stream(self._stream, self._idle, linger)
        except Exception:
            self.close()
            raise

    def set_idle(self, seconds: float) -> None:
        """Change the idle timeout; see `Stream.set_idle`."""
        self._idle = seconds

    def close(self) -> None:
        """Drop the connection and wake the reading thread; see `Stream.close`."""
        self._stream.close()
