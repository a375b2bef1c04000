"""The ways in which a call to a daemon can fail; the class of a failure decides when a mesh pass retries.

RpcFailure
├── Refused            no connection, or one that was cut without an answer
├── Timeout            no connection or no complete answer in time
├── Busy               503: the daemon's queue is full, or it is stopping
├── Unauthorized       401: wrong user or password
├── Forbidden          403: the source or the method is not allowed
├── Protocol           an invalid answer: no HTTP, no JSON, another request's, too large, a redirect
├── Closed             the client was closed, so nothing was sent
└── RpcError           the daemon's own error, with its code
    └── WarmingUp      -28: the daemon is starting
"""

from __future__ import annotations

from typing import ClassVar

#: Codes of daemons' errors.
IN_WARMUP, METHOD_NOT_FOUND = -28, -32601
ALREADY_ADDED, NOT_ADDED, NOT_CONNECTED = -23, -24, -29
_MAX_MESSAGE = 200


class RpcFailure(Exception):
    """A call without a result; `reason` is the name of the class, and the text holds nothing secret or volatile."""

    reason: ClassVar[str] = "Failure"

    def __init_subclass__(cls) -> None:
        """Set the reason to the name of the class."""
        cls.reason = cls.__name__


class Refused(RpcFailure):
    """The connection was refused, or cut before the answer was complete."""


class Timeout(RpcFailure):
    """There was no connection, or no complete answer, in time; the call may still take effect."""


class Busy(RpcFailure):
    """The daemon is overloaded or about to stop."""


class Unauthorized(RpcFailure):
    """The daemon refuses the user or the password."""


class Forbidden(RpcFailure):
    """The daemon does not allow calls from here, or this method."""


class Protocol(RpcFailure):
    """The answer is invalid, or does not answer the request."""


class Closed(RpcFailure):
    """The client was closed before the call was sent."""


class RpcError(RpcFailure):
    """The daemon's own error; decide on `code` only: `message` is for humans and may be a whole help text."""

    def __init__(self, code: int, message: str) -> None:
        """Keep both, and show the first line of the message."""
        first = message.partition("\n")[0][:_MAX_MESSAGE]
        super().__init__(f"{first} ({code})")
        self.code = code
        self.message = message


class WarmingUp(RpcError):
    """The daemon answers, but is still starting."""
