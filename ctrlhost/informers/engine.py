"""What a reflector feeds: the part of the core's informer that it uses, as an interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ctrlhost._core import Body


class ListMeta(Protocol):
    """What a list page says about itself."""

    @property
    def resource_version(self) -> str:
        """The list's version."""

    @property
    def continue_(self) -> str | None:
        """The token of the next page, None or empty on the last one."""

    @property
    def remaining_item_count(self) -> int | None:
        """How many objects are still to come, if the server says so."""

    @property
    def count(self) -> int:
        """Objects on this page."""


class WatchProgress(Protocol):
    """What a piece of a watch stream brought."""

    @property
    def events(self) -> int:
        """Objects that were added, modified or deleted."""

    @property
    def bookmarks(self) -> int:
        """Bookmarks."""

    @property
    def plain_bookmarks(self) -> int:
        """Bookmarks that say nothing about initial events."""

    @property
    def skipped(self) -> int:
        """Frames that were left out since no cache can hold what they say."""

    @property
    def resource_version(self) -> str:
        """The version to go on from."""

    @property
    def initial_events_end(self) -> bool:
        """Whether the initial events are complete."""

    @property
    def error(self) -> dict[str, Any] | None:
        """The `Status` of an ERROR frame."""

    @property
    def failed(self) -> Exception | None:
        """What ended the stream after that."""


class Engine(Protocol):
    """Bytes in, cache up to date; `ctrlhost._core.SharedInformer`. Feeding is for one thread at a time."""

    @property
    def last_resource_version(self) -> str:
        """The version that the content is of; empty before the first list."""

    def begin_list(self) -> None:
        """Start to stage a list."""

    def abort_list(self) -> None:
        """Drop what is staged."""

    def feed_list(self, chunk: bytes, /) -> None:
        """Take more of a page."""

    def list_piece(self, body: Body, piece: bytes, /) -> None:
        """Take a piece of the body of a page, with its framing."""

    def list_socket(self, body: Body, idle: float, linger: float, /) -> None:
        """Do so with what the body's socket brings within `linger` seconds, and wait for it `idle` seconds at most."""

    def end_page(self) -> ListMeta:
        """Finish a page."""

    def replace(self, resource_version: str, /) -> None:
        """Make what is staged the whole content."""

    def feed_watch(self, chunk: bytes, /) -> WatchProgress:
        """Take more of a watch stream."""

    def follow(self, body: Body, piece: bytes, /) -> WatchProgress:
        """Take a piece of the body of a watch, with its framing, and tell the handlers at once."""

    def follow_socket(self, body: Body, idle: float, linger: float, /) -> WatchProgress:
        """Do so with what the body's socket brings, and wait for it `idle` seconds at most.

        Events that only go to queues are passed on for `linger` seconds before it returns.
        """

    def end_watch(self) -> WatchProgress:
        """Finish a watch stream; an error if it was cut in the middle of a frame."""

    def process(self) -> int:
        """Bring the store up to date and tell the handlers."""

    def stats(self) -> dict[str, Any]:
        """Give counts since the start; `skipped` objects that were left out, and `last_skip`, why the last one was."""


@runtime_checkable
class FollowedStream(Protocol):
    """A stream that hands its bytes to an engine itself, and comes back only when something is to be said."""

    def feed_list(self, engine: Engine, linger: float) -> bool:
        """Pass on more of a list page, for `linger` seconds at most; False at the end."""

    def follow(self, engine: Engine, linger: float) -> WatchProgress | None:
        """Pass on what comes, for `linger` seconds at most while there are only events; None at the end."""
