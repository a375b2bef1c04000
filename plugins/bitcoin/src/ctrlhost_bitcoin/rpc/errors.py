"""How a call to a daemon can fail: by the class of the failure a mesh pass decides when to try again.

RpcFailure
├── Refused            no connection, or one that was cut without an answer
├── Timeout            no connection or no complete answer in time
├── Busy               503: the daemon's queue is full, or it is stopping
├── Unauthorized       401: not this user or password
├── Forbidden          403: not from this source, or not this method
├── Protocol           an answer that is none: no HTTP, no JSON, another request's, too large, a redirect
├── Closed             the client was closed, so nothing was sent
└── RpcError           the daemon's own error, with its code
    └── WarmingUp      -28: the daemon is starting
"""

from __future__ import annotations

from typing import ClassVar

IN_WARMUP = -28
METHOD_NOT_FOUND = -32601
_ALREADY_ADDED = -23
_NOT_ADDED = -24
_NOT_CONNECTED = -29
_LONGEST_MESSAGE = 200


class RpcFailure(Exception):
    """A call that brought no result; `reason` is the name of its class, the text holds nothing secret or volatile."""

    reason: ClassVar[str] = "Failure"

    def __init_subclass__(cls) -> None:
        """Name the reason after the class."""
        cls.reason = cls.__name__


class Refused(RpcFailure):
    """The connection was refused, or cut before the answer was complete."""


class Timeout(RpcFailure):
    """There was no connection, or no complete answer, in time; the call may still take effect."""


class Busy(RpcFailure):
    """The daemon has too much to do, or is about to stop."""


class Unauthorized(RpcFailure):
    """The daemon knows no such user and password."""


class Forbidden(RpcFailure):
    """The daemon takes no calls from here, or not this method."""


class Protocol(RpcFailure):
    """What came back is no answer to what was asked."""


class Closed(RpcFailure):
    """The client was closed before the call was sent."""


class RpcError(RpcFailure):
    """The daemon's own error; decide on `code` only, `message` is for humans and may be a whole help text."""

    def __init__(self, code: int, message: str) -> None:
        """Keep both, and show the first line of the message."""
        first = message.partition("\n")[0][:_LONGEST_MESSAGE]
        super().__init__(f"{first} ({code})")
        self.code = code
        self.message = message

    @property
    def is_already_added(self) -> bool:
        """Whether an `add` was refused since the node is in the list."""
        return self.code == _ALREADY_ADDED

    @property
    def is_not_added(self) -> bool:
        """Whether a `remove` was refused since the node is not in the list."""
        return self.code == _NOT_ADDED

    @property
    def is_not_connected(self) -> bool:
        """Whether a disconnect was refused since there is no such connection."""
        return self.code == _NOT_CONNECTED


class WarmingUp(RpcError):
    """The daemon answers, but is not done with starting."""


def rpc_error(code: int, message: str) -> RpcError:
    """Give the error of a code, in its class."""
    return WarmingUp(code, message) if code == IN_WARMUP else RpcError(code, message)
