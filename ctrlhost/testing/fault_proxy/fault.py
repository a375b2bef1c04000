"""What can go wrong between a client and its API server, one thing at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal[
    "refuse",
    "bad-tls",
    "answer",
    "reset",
    "stall",
    "delay",
    "cut-headers",
    "cut",
    "truncate",
    "half-open",
    "duplicate",
    "garbage",
    "error-frame",
    "older",
]

#: Faults of a connection before its first request.
OF_CONNECTIONS: Final[frozenset[str]] = frozenset({"refuse", "bad-tls"})
#: Faults that keep the request from the server.
BEFORE_THE_SERVER: Final[frozenset[str]] = frozenset({"answer", "reset", "stall"})
#: Faults that only make sense where an answer is a stream of frames.
OF_WATCHES: Final[frozenset[str]] = frozenset({"duplicate", "garbage", "error-frame"})
#: Faults within a body, which may follow each other.
OF_BODIES: Final[frozenset[str]] = OF_WATCHES | {"cut", "truncate", "half-open"}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault; made by the class methods. All times are real seconds.

    In a watch a frame is one event. Other answers are one frame as a whole.
    """

    kind: Kind
    #: The HTTP status of an `answer`, or the code of an `error-frame`.
    status: int = 0
    #: What the answer says in `Retry-After`; None leaves it out.
    retry_after: int | None = None
    #: The reason of the `Status`, where the usual one for the code will not do.
    reason: str = ""
    #: How long a `delay` lasts, or a silence before it ends in a reset; 0 is for ever where it is a silence.
    seconds: float = 0.0
    #: Frames that pass before the fault strikes.
    after: int = 0
    #: How much of what comes next still passes, from 0 to 1.
    part: float = 0.5
    #: When a quiet stream is struck although no frame came, in seconds; None waits for the frame.
    within: float | None = None

    @classmethod
    def refuse(cls) -> Fault:
        """Reset the next new connection at once."""
        return cls("refuse")

    @classmethod
    def bad_tls(cls) -> Fault:
        """Break off the next TLS handshake with bytes that are no TLS."""
        return cls("bad-tls")

    @classmethod
    def answer(cls, status: int, *, reason: str = "", retry_after: int | None = None) -> Fault:
        """Answer with a `Status` of this code in the server's place."""
        return cls("answer", status=status, reason=reason, retry_after=retry_after)

    @classmethod
    def too_large(cls) -> Fault:
        """Answer that the asked resource version lies in the future, as a replica that lags behind does."""
        return cls("answer", status=504, reason="ResourceVersionTooLarge")

    @classmethod
    def reset(cls) -> Fault:
        """Reset the connection in place of an answer; the request never reaches the server."""
        return cls("reset")

    @classmethod
    def stall(cls, seconds: float = 0.0) -> Fault:
        """Answer nothing, with the connection open."""
        return cls("stall", seconds=seconds)

    @classmethod
    def delay(cls, seconds: float) -> Fault:
        """Hold the request back for a while."""
        return cls("delay", seconds=seconds)

    @classmethod
    def cut_headers(cls, part: float = 0.5) -> Fault:
        """Reset the connection within the answer's headers; the server has done what was asked."""
        return cls("cut-headers", part=part)

    @classmethod
    def cut(cls, after: int = 0, part: float = 0.5, *, within: float | None = None) -> Fault:
        """Break the connection within a frame, without an end of the answer."""
        return cls("cut", after=after, part=part, within=within)

    @classmethod
    def truncate(cls, after: int = 0, part: float = 0.5, *, within: float | None = None) -> Fault:
        """End the answer within a frame, as if that were all of it."""
        return cls("truncate", after=after, part=part, within=within)

    @classmethod
    def half_open(
        cls, after: int = 0, part: float = 0.0, *, seconds: float = 0.0, within: float | None = None
    ) -> Fault:
        """Bring nothing more, with the connection open: the server is gone and nobody said so."""
        return cls("half-open", after=after, part=part, seconds=seconds, within=within)

    @classmethod
    def duplicate(cls, after: int = 0, *, within: float | None = None) -> Fault:
        """Bring a frame twice; in a quiet stream the one that came last."""
        return cls("duplicate", after=after, within=within)

    @classmethod
    def garbage(cls, after: int = 0, *, within: float | None = None) -> Fault:
        """Bring a line that is no frame, then go on."""
        return cls("garbage", after=after, within=within)

    @classmethod
    def error_frame(cls, status: int, after: int = 0, *, within: float | None = None) -> Fault:
        """End a watch with an ERROR event of this code."""
        return cls("error-frame", status=status, after=after, within=within)

    @classmethod
    def older(cls) -> Fault:
        """Answer a list, or the first part of a streaming one, as some time ago; as it is if nothing older is known."""
        return cls("older")


@dataclass(frozen=True, slots=True)
class Injected:
    """One fault that struck."""

    #: Counts from 1 in the order in which they struck.
    number: int
    fault: Fault
    verb: str
    path: str
    #: Which request of this verb and path it was, from 1; which connection, for faults of connections.
    nth: int
    #: The seed that drew it; None for one that a test ordered.
    seed: int | None
    #: Which fault of the same watch it was, from 0.
    again: int = 0

    def __str__(self) -> str:
        """Say it in one line."""
        drawn = "ordered" if self.seed is None else f"seed {self.seed}"
        return f"#{self.number} {self.fault.kind} on {self.verb} {self.path} ({self.nth}. of its kind, {drawn})"
