"""The states of a reflector. It always is in one of them, and each says what it holds and when it leaves.

The same machine as that of kube-rs (`kube-runtime/src/watcher.rs`), with a state for the waits between attempts:

    Unlisted -> Watching         a streaming list, whose stream goes on as a watch
    Unlisted -> Listed           a list in pages
    Listed -> Watching           a watch was opened
    Watching -> Listed           the watch ended where another one can go on
    any -> BackingOff -> Unlisted   something failed, or only a new list helps

A reflector of a shard lists the ranges that come in `Listed`, and waits without a list in `Resting` while it has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from ctrlhost.client.resources import Resource
    from ctrlhost.errors import CtrlhostError
    from ctrlhost.transport.interface import Stream


@dataclass(frozen=True, slots=True)
class Unlisted:
    """The content may differ from the server's: the next step is a list, which corrects all differences."""

    #: The last list had no room in the memory budget, and made some for this one.
    made_room: bool = False


@dataclass(frozen=True, slots=True)
class Listed:
    """The content is the server's at the resume point, and nothing is open: the next step opens a watch.

    It stays in this state while the server is unreachable or busy: a new list would only be more work for it.
    """

    resource: Resource
    #: The last watch ended before its time, as with a server that was restored to an earlier state.
    doubted: bool = False


@dataclass(frozen=True, slots=True)
class Watching:
    """Changes arrive on a stream, up to its end."""

    resource: Resource
    stream: Stream
    #: The stream has sent the first list, so it works however soon it ends.
    proved: bool = False
    #: An ERROR frame in the same piece as the end of the first list.
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class BackingOff:
    """Nothing is open. After a delay, or a wake-up, the next attempt begins."""

    #: Why; None if the server only ended a watch that cannot be opened again.
    error: CtrlhostError | None = None
    #: As in `Unlisted`.
    made_room: bool = False


@dataclass(frozen=True, slots=True)
class Resting:
    """Nothing is open, and nothing is held, until ranges are wanted."""


State: TypeAlias = Unlisted | Listed | Watching | BackingOff | Resting
