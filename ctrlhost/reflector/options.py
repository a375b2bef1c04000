"""What can be set about reflectors; the defaults are client-go's."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BackoffOptions:
    """The delays between attempts, in seconds; see `Backoff`."""

    base: float = 0.8
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 1.0
    reset_after: float = 120.0


@dataclass(frozen=True, slots=True)
class ReflectorOptions:
    """How a reflector lists and watches. All times are in seconds."""

    #: Objects per list page; None leaves it to the rules for the watch cache.
    page_size: int | None = None
    #: A watch lasts between this and twice as long; less than the default counts as the default.
    min_watch_timeout: float = 300.0
    #: A stream that brings no byte for so long is dead. Servers send a bookmark about once a minute, some less often.
    idle_timeout: float = 180.0
    #: The longest silence among the initial events of a streaming list; after it the list is asked for in pages.
    initial_idle_timeout: float = 30.0
    #: To connect and get the headers of an answer.
    connect_timeout: float = 30.0
    #: Between two pieces of a list: a server may think about a large one for a while.
    list_timeout: float = 60.0
    #: Ask for the first list as a stream; servers that can not are asked for pages.
    watch_list: bool = True
    #: For how long a watch that fails with an internal error is opened again at once; 0 is never.
    internal_error_window: float = 0.0
    #: The longest wait for a resource that is not served, or that we may not read.
    waiting_cap: float = 10.0
    backoff: BackoffOptions = field(default_factory=BackoffOptions)
