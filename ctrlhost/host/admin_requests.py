"""The requests of the admin API and their answers."""

from __future__ import annotations

from typing import TypeAlias, get_args

import msgspec

from ctrlhost.config.settings import LogLevel
from ctrlhost.status.problem import StatusProblem, unknown

#: The priority of all objects of a controller, as at a resync.
ALL_PRIORITY = -100
#: The keys that a line of the log names.
_NAMED = 3
#: The longest time of a level, in seconds.
_LONGEST = 366 * 86_400.0
_INT32 = 1 << 31
#: The characters of the reason of a pause, at most.
REASON_LENGTH = 200
#: The longest profile, in seconds; less than the time of a request.
LONGEST_PROFILE = 45.0


class PauseRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pause or resume a controller of a plugin, without `controller` all of them; `reason` says why they are paused."""

    plugin: str
    controller: str | None = None
    reason: str = ""

    @property
    def target(self) -> str:
        """What the log names."""
        return f"{self.plugin}/{self.controller}" if self.controller is not None else self.plugin

    def __post_init__(self) -> None:
        """ValueError for a reason that is longer than a line of text."""
        if len(self.reason) > REASON_LENGTH:
            raise ValueError(f"`reason` must have at most {REASON_LENGTH} characters, got {len(self.reason)}")


class EnqueueRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Enqueue some keys of a controller, or all objects of its `For`."""

    controller: str
    keys: tuple[str, ...] = ()
    all: bool = False
    priority: int | None = None

    @property
    def target(self) -> str:
        """What the log names."""
        if self.all:
            return f"{self.controller} all"
        left = len(self.keys) - _NAMED
        return " ".join([self.controller, *self.keys[:_NAMED], *([f"and {left} more"] if left > 0 else [])])

    def __post_init__(self) -> None:
        """ValueError for keys and `all` together, or neither, and for a priority beyond 32 bits."""
        if bool(self.keys) == self.all:
            raise ValueError("give either `keys` or `all`")
        if any(not key for key in self.keys):
            raise ValueError("a key is empty")
        if self.priority is not None and not -_INT32 <= self.priority < _INT32:
            raise ValueError(f"invalid priority {self.priority}: it must fit 32 bits")


class LogLevelRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Set the level of a plugin's or one other logger, without `target` that of the host, for some seconds."""

    level: LogLevel
    target_name: str | None = msgspec.field(default=None, name="target")
    seconds: float = 1800.0

    @property
    def target(self) -> str:
        """What the log names."""
        time = f"for {self.seconds:g} s" if self.seconds else "until the end"
        return " ".join(filter(None, [self.target_name, self.level, time]))

    def __post_init__(self) -> None:
        """ValueError for a time below 0, or above a year."""
        if not 0 <= self.seconds <= _LONGEST:
            raise ValueError(f"invalid time: {self.seconds:g} s; it must be from 0 to {_LONGEST:.0f} s")


class ResignRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Release the Lease of a plugin, without `plugin` those of all plugins, so that another replica leads."""

    plugin: str | None = None

    @property
    def target(self) -> str:
        """What the log names."""
        return self.plugin if self.plugin is not None else "all plugins"


class ProfileRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sample the stacks of all threads for some seconds: of this process, or of that of an isolated plugin."""

    seconds: float = 10.0
    plugin: str | None = None
    #: Whether to measure what memory is allocated meanwhile, which slows the process down.
    heap: bool = False

    @property
    def target(self) -> str:
        """What the log names."""
        return " ".join([self.plugin or "", f"for {self.seconds:g} s", "with the heap" if self.heap else ""]).strip()

    def __post_init__(self) -> None:
        """ValueError for a time that is not positive, or over that of a request."""
        if not 0 < self.seconds <= LONGEST_PROFILE:
            raise ValueError(f"invalid time: {self.seconds:g} s; it must be from 0 to {LONGEST_PROFILE:g} s")


AdminRequest: TypeAlias = PauseRequest | EnqueueRequest | LogLevelRequest | ResignRequest | ProfileRequest
LEVELS: tuple[str, ...] = get_args(LogLevel)

ACTIONS: dict[str, type[AdminRequest]] = {
    "pause": PauseRequest,
    "resume": PauseRequest,
    "enqueue": EnqueueRequest,
    "log-level": LogLevelRequest,
    "resign": ResignRequest,
    "profile": ProfileRequest,
}


class PauseAnswer(msgspec.Struct, frozen=True):
    """The controllers that are paused or not now, whether any was not before, and their runs and queued keys."""

    controllers: list[str]
    changed: bool
    running: int
    queued: int


class EnqueueAnswer(msgspec.Struct, frozen=True):
    """How many keys were queued, and what may be wrong with them."""

    controller: str
    queued: int
    warnings: list[str]


class LogLevelAnswer(msgspec.Struct, frozen=True):
    """The level now and before, and when the one before comes back."""

    target: str | None
    level: str
    was: str
    until: str | None


class ResignAnswer(msgspec.Struct, frozen=True):
    """The Leases that this replica no longer leads, and the seconds until it is a candidate again.

    `runs` is for the host of an isolated plugin: whether work of it still runs.
    """

    leases: list[str]
    seconds: float
    runs: bool = False


class ProfileAnswer(msgspec.Struct, frozen=True):
    """How often each stack was seen, in folded lines; and the largest allocations, if the heap was asked for."""

    samples: int
    stacks: dict[str, int]
    heap: list[str] = []


def parsed(action: str, body: bytes) -> AdminRequest:
    """Return the request of an action; StatusProblem for an unknown action or a malformed body."""
    kind = ACTIONS.get(action)
    if kind is None:
        raise unknown("action", action, ACTIONS)
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StatusProblem(400, f"the body is not JSON: {error}", None) from None
    if not isinstance(fields, dict):
        raise StatusProblem(400, "the body is no JSON object", None)
    known = [info.encode_name for info in msgspec.structs.fields(kind)]
    for name in fields:
        if name not in known:
            problem = unknown("field", name, known)
            raise StatusProblem(400, f"unknown field `{name}`", problem.hint)
    level = fields.get("level")
    if kind is LogLevelRequest and isinstance(level, str) and level not in LEVELS:
        problem = unknown("level", level, LEVELS)
        raise StatusProblem(400, problem.error, problem.hint)
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise StatusProblem(400, f"invalid request: {error}", None) from None
