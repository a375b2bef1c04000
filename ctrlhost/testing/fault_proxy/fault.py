"""The faults that a proxy can inject between a client and its API server."""

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
#: Faults of answers that are a stream of frames.
OF_WATCHES: Final[frozenset[str]] = frozenset({"duplicate", "garbage", "error-frame"})
#: Faults within a body, of which several can follow each other.
OF_BODIES: Final[frozenset[str]] = OF_WATCHES | {"cut", "truncate", "half-open"}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault; made by the class methods. All times are real seconds.

    In a watch a frame is one event. Other answers are one frame as a whole.
    """

    kind: Kind
    #: The HTTP status of an `answer`, or the code of an `error-frame`.
    status: int = 0
    #: The header `Retry-After` of the answer; None omits it.
    retry_after: int | None = None
    #: The reason of the `Status`; by default the usual one for the code.
    reason: str = ""
    #: Seconds of a `delay`, or of a silence until it ends in a reset; a silence of 0 is forever.
    seconds: float = 0.0
    #: Frames that are forwarded before the fault strikes.
    after: int = 0
    #: The fraction of the next frame that is still forwarded, from 0 to 1.
    part: float = 0.5
    #: Seconds after which a quiet stream is hit without a frame; None waits for the frame.
    within: float | None = None

    @classmethod
    def refuse(cls) -> Fault:
        """Reset the next new connection at once."""
        return cls("refuse")

    @classmethod
    def bad_tls(cls) -> Fault:
        """Answer the next TLS handshake with bytes that are not TLS."""
        return cls("bad-tls")

    @classmethod
    def answer(cls, status: int, *, reason: str = "", retry_after: int | None = None) -> Fault:
        """Answer with a `Status` of this code instead of the server."""
        return cls("answer", status=status, reason=reason, retry_after=retry_after)

    @classmethod
    def too_large(cls) -> Fault:
        """Answer that the requested resource version is in the future, as a lagging replica does."""
        return cls("answer", status=504, reason="ResourceVersionTooLarge")

    @classmethod
    def reset(cls) -> Fault:
        """Reset the connection instead of an answer; the request never reaches the server."""
        return cls("reset")

    @classmethod
    def stall(cls, seconds: float = 0.0) -> Fault:
        """Send no answer and keep the connection open."""
        return cls("stall", seconds=seconds)

    @classmethod
    def delay(cls, seconds: float) -> Fault:
        """Delay the request."""
        return cls("delay", seconds=seconds)

    @classmethod
    def cut_headers(cls, part: float = 0.5) -> Fault:
        """Reset the connection within the answer's headers; the server has processed the request."""
        return cls("cut-headers", part=part)

    @classmethod
    def cut(cls, after: int = 0, part: float = 0.5, *, within: float | None = None) -> Fault:
        """Reset the connection within a frame."""
        return cls("cut", after=after, part=part, within=within)

    @classmethod
    def truncate(cls, after: int = 0, part: float = 0.5, *, within: float | None = None) -> Fault:
        """End the answer within a frame, as if it were complete."""
        return cls("truncate", after=after, part=part, within=within)

    @classmethod
    def half_open(
        cls, after: int = 0, part: float = 0.0, *, seconds: float = 0.0, within: float | None = None
    ) -> Fault:
        """Send nothing more and keep the connection open, as when a server vanishes."""
        return cls("half-open", after=after, part=part, seconds=seconds, within=within)

    @classmethod
    def duplicate(cls, after: int = 0, *, within: float | None = None) -> Fault:
        """Send a frame twice; in a quiet stream the last one."""
        return cls("duplicate", after=after, within=within)

    @classmethod
    def garbage(cls, after: int = 0, *, within: float | None = None) -> Fault:
        """Send a line that is not a frame, then continue."""
        return cls("garbage", after=after, within=within)

    @classmethod
    def error_frame(cls, status: int, after: int = 0, *, within: float | None = None) -> Fault:
        """End a watch with an ERROR event of this code."""
        return cls("error-frame", status=status, after=after, within=within)

    @classmethod
    def older(cls) -> Fault:
        """Repeat an older answer to a list, or to the first part of a streaming one; does nothing without one."""
        return cls("older")


@dataclass(frozen=True, slots=True)
class Injected:
    """One injected fault."""

    #: From 1, in the order in which faults struck.
    number: int
    fault: Fault
    verb: str
    path: str
    #: The number of the request among those of its verb and path, or of the connection, from 1.
    nth: int
    #: The seed that it was drawn from; None for an ordered fault.
    seed: int | None
    #: The number of the fault within the same watch, from 0.
    again: int = 0

    def __str__(self) -> str:
        """Return a line for logs."""
        drawn = "ordered" if self.seed is None else f"seed {self.seed}"
        return f"#{self.number} {self.fault.kind} on {self.verb} {self.path} ({self.nth}. of its kind, {drawn})"
