"""What each listener allows its clients."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers of connections, seconds and bytes."""

    connections: int
    #: Seconds without a request before an open connection is closed.
    idle: int
    #: Bytes of a body, None for any number; and seconds for an answer, None where the app has its own limit.
    body: int | None
    answer: float | None
    #: Seconds from the first byte, or from the connection, to the end of a request's header; and its bytes.
    header: float = 5.0
    header_bytes: int = 16 << 10
    #: Seconds for which a client may read nothing of what waits for it.
    unread: float = 5.0
    #: Bytes of an answer that the kernel keeps for a client; None for what it likes, which may be megabytes.
    kept: int | None = None


PROBES = Limits(connections=64, idle=30, body=0, answer=1)
METRICS = Limits(connections=32, idle=60, body=0, answer=10)
STATUS = Limits(connections=128, idle=60, body=0, answer=10, unread=30, kept=64 << 10)
ADMIN = Limits(connections=8, idle=5, body=64 << 10, answer=60, unread=30, kept=64 << 10)
#: A plugin's own listener, where its deadline `page` limits the answers; and the pages in the process of a plugin.
PLUGIN = Limits(connections=512, idle=60, body=None, answer=None, unread=30)
#: The API server closes its idle connections after 90 s, and has to do so first: it does not repeat a POST.
WEBHOOKS = Limits(connections=512, idle=120, body=8 << 20, answer=None, unread=30)
