"""Where a reflector stands in a resource's history, and from where it lists next."""

from __future__ import annotations

from dataclasses import dataclass

from ctrlhost.errors import ApiError, Expired, TooManyRequests, TransportError

PAGE = 500
"""Objects per page where the server pages at all."""

_TOO_LARGE = "Too large resource version"


@dataclass(slots=True)
class Position:
    """The last resource version seen, and what earlier lists taught about the server."""

    last: str = ""
    #: The server said that it no longer has, or does not have yet, the version that we asked for.
    unavailable: bool = False
    #: A list at version 0 came in pages, so the server does not answer it from its watch cache.
    paginated: bool = False
    page_size: int | None = None

    def list_version(self) -> str:
        """Give the version to list at: never one older than what is known, since that would go back in time."""
        if self.unavailable:
            return ""
        return self.last or "0"

    def watch_list_version(self) -> str:
        """Give the version that a streaming list must be at least as new as."""
        return "" if self.unavailable else self.last

    def limit(self, version: str) -> int:
        """Give the page size for a list at `version`; 0 asks for everything at once, which a watch cache can serve."""
        if self.page_size is not None:
            return self.page_size
        if self.paginated or version in ("", "0"):
            return PAGE
        return 0

    def listed(self, version: str, pages: int, asked: str) -> None:
        """Note a list that was taken over."""
        self.unavailable = False
        self.last = version
        if asked == "0" and pages > 1:
            self.paginated = True


def is_unavailable(error: Exception) -> bool:
    """Tell whether the server has not the version that was asked for: it is gone, or lies in its future."""
    return isinstance(error, Expired) or is_too_large(error)


def is_too_large(error: Exception) -> bool:
    """Tell whether the version lies in the server's future, in any of the ways servers have said so."""
    if not isinstance(error, ApiError):
        return False
    causes = [(cause.get("reason"), str(cause.get("message"))) for cause in error.causes]
    if any(reason == "ResourceVersionTooLarge" for reason, _ in causes):
        return True
    timed_out = error.reason == "Timeout" or error.status == 504
    return timed_out and (_TOO_LARGE in error.message or any(_TOO_LARGE in message for _, message in causes))


def is_busy(error: Exception) -> bool:
    """Tell whether the same request is worth repeating: the server is not there right now, or asks to slow down."""
    return isinstance(error, TooManyRequests) or (isinstance(error, TransportError) and not error.sent)
