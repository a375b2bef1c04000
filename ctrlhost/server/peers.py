"""The users at the other end of Unix sockets."""

from __future__ import annotations

from typing import NamedTuple


class Peer(NamedTuple):
    """The process at the other end; it may have ended since, and its number is 0 where the system does not say."""

    user: int
    process: int

    def __str__(self) -> str:
        """Name it for the log."""
        return f"uid {self.user} pid {self.process}"
