"""Options of reflectors; the defaults are client-go's."""

from __future__ import annotations

from dataclasses import dataclass, field

from ctrlhost.reflector.compressions import Compressions
from ctrlhost.reflector.encodings import Encodings

MAX_OBJECT = 16 << 20
"""Bytes; etcd's own limit is about 1.5 MiB."""


@dataclass(frozen=True, slots=True)
class BackoffOptions:
    """The delays between attempts, in seconds; see `Backoff`."""

    base: float = 0.8
    cap: float = 30.0
    jitter: float = 1.0
    reset_after: float = 120.0


@dataclass(frozen=True, slots=True)
class ReflectorOptions:
    """Options of a reflector; all times are in seconds."""

    #: Objects per list page; None follows the rules for the watch cache.
    page_size: int | None = None
    #: A watch lasts between one and two times this; the default is client-go's minimum.
    min_watch_timeout: float = 300.0
    #: Idle timeout of a watch. Servers send a bookmark about once a minute, some less often.
    idle_timeout: float = 180.0
    #: The idle timeout of the initial events of a streaming list; after it the list is requested in pages.
    initial_idle_timeout: float = 30.0
    #: Timeout until the headers of a response arrive.
    connect_timeout: float = 30.0
    #: Timeout between two pieces of a list: a server may need some time for a large list.
    list_timeout: float = 60.0
    #: Request the first list as a stream, in pages from servers without streaming lists.
    watch_list: bool = True
    #: How long watches that fail with an internal error are reopened without back-off; 0 for never.
    internal_error_window: float = 0.0
    #: The longest delay while the resource is not served, or the credentials lack the permission to read it.
    waiting_cap: float = 10.0
    #: Whether the server may be restored to an earlier state without telling its readers.
    restorable: bool = True
    backoff: BackoffOptions = field(default_factory=BackoffOptions)
    #: What the objects of all informers may take, in bytes; None for any amount.
    memory_budget: int | None = None
    #: The largest object, in bytes, in either encoding.
    max_object: int = MAX_OBJECT
    #: Which kinds may come as protobuf.
    encodings: Encodings = field(default_factory=Encodings)
    #: Which kinds are compressed in the cache.
    compressions: Compressions = field(default_factory=Compressions)
