"""What a reflector feeds: the part of the core's informer that it uses, as an interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ctrlhost.transport.interface import BodyReader

if TYPE_CHECKING:
    from ctrlhost.transport.interface import WatchProgress


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


class Engine(BodyReader, Protocol):
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

    def end_page(self) -> ListMeta:
        """Finish a page."""

    def replace(self, resource_version: str, /) -> None:
        """Make what is staged the whole content."""

    def feed_watch(self, chunk: bytes, /) -> WatchProgress:
        """Take more of a watch stream."""

    def end_watch(self) -> WatchProgress:
        """Finish a watch stream; an error if it was cut in the middle of a frame."""

    def process(self) -> int:
        """Bring the store up to date and tell the handlers."""

    def stats(self) -> dict[str, Any]:
        """Give counts since the start; `skipped` objects that were left out, and `last_skip`, why the last one was."""
