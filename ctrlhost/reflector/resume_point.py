"""A reflector's place in the history of a resource, and the version of its next list."""

from __future__ import annotations

from dataclasses import dataclass

from ctrlhost.errors import ApiError, Expired, TooManyRequests, TransportError

PAGE = 500
"""Objects per page of a list that is not served from the watch cache."""

_TOO_LARGE = "Too large resource version"


@dataclass(slots=True)
class ResumePoint:
    """The last resource version seen, and the server's behaviour in earlier lists."""

    last: str = ""
    #: Whether the server no longer has, or does not have yet, the requested version.
    unavailable: bool = False
    #: Whether the server sent a list at version 0 in pages, so not from its watch cache.
    paginated: bool = False
    page_size: int | None = None

    def list_version(self) -> str:
        """Return the version to list at: not older than the last one, so that the cache never goes back in time."""
        return "" if self.unavailable else self.last or "0"

    def watch_list_version(self) -> str:
        """Return the oldest acceptable version for a streaming list."""
        return "" if self.unavailable else self.last

    def limit(self, version: str) -> int:
        """Return the page size for a list at `version`; 0 requests all objects at once, as a watch cache can serve."""
        if self.page_size is not None:
            return self.page_size
        if self.paginated or version in ("", "0"):
            return PAGE
        return 0

    def listed(self, version: str, pages: int, requested: str) -> None:
        """Record a complete list."""
        self.unavailable = False
        self.last = version
        if requested == "0" and pages > 1:
            self.paginated = True


def is_older(version: str, than: str) -> bool:
    """Return whether both are numbers and the first one is smaller; others cannot be compared."""
    return version.isascii() and than.isascii() and version.isdigit() and than.isdigit() and int(version) < int(than)


def is_unavailable(error: Exception) -> bool:
    """Return whether the requested version is unavailable: too old, or newer than the server's."""
    return isinstance(error, Expired) or is_too_large(error)


def is_too_large(error: Exception) -> bool:
    """Return whether the requested version is newer than the server's, in any form that servers report it."""
    if not isinstance(error, ApiError):
        return False
    causes = [(cause.get("reason"), str(cause.get("message"))) for cause in error.causes]
    if any(reason == "ResourceVersionTooLarge" for reason, _ in causes):
        return True
    timed_out = error.reason == "Timeout" or error.status == 504
    return timed_out and (_TOO_LARGE in error.message or any(_TOO_LARGE in message for _, message in causes))


def is_busy(error: Exception) -> bool:
    """Return whether to repeat the same request: the server is unreachable, or asks to slow down."""
    return isinstance(error, TooManyRequests) or (isinstance(error, TransportError) and not error.sent)
