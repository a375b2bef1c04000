"""Events of a run about its object: `ctx.event`, and the memory of those that are recorded only once."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ctrlhost.models.typed_objects import mapping_of

if TYPE_CHECKING:
    from ctrlhost.events.recorder import PluginEvents
    from ctrlhost.models.kinds import Kind
    from ctrlhost.request import Request

#: A reason as that of a condition, but of the length that the API allows for events.
_REASON = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]*[A-Za-z0-9_])?").fullmatch
_MAX_REASON = 128
#: The events that are remembered, per controller.
_EVENTS = 65_536


class OnceMemory:
    """The events of one controller that were recorded with `once`. Callable from any thread."""

    def __init__(self, events: int = _EVENTS) -> None:
        """Start empty; remember so many events, the latest ones."""
        self._most = events
        self._lock = threading.Lock()
        #: As hashes: messages may be long.
        self._hashes: OrderedDict[int, None] = OrderedDict()
        #: The keys whose object was gone when an event was recorded.
        self._gone: OrderedDict[Request, int] = OrderedDict()
        self._returns = 0

    def gone(self, key: Request) -> int:
        """Return what tells the absence of a key's object from those before, which `returned` ended."""
        with self._lock:
            since = self._gone.setdefault(key, self._returns)
            if len(self._gone) > self._most:
                self._gone.popitem(last=False)
        return since

    def returned(self, key: Request) -> None:
        """Note that the object of a key exists: a later absence is another one."""
        if key not in self._gone:
            return
        with self._lock:
            self._gone.pop(key, None)
            self._returns += 1

    def first(self, about: object, generation: int, reason: str, message: str) -> bool:
        """Return whether the event is the first of its object, generation, reason and message, and remember it.

        `about` is the uid of the object, or its kind and name.
        """
        known = hash((about, generation, reason, message))
        with self._lock:
            first = known not in self._hashes
            self._hashes[known] = None
            self._hashes.move_to_end(known)
            if len(self._hashes) > self._most:
                self._hashes.popitem(last=False)
        return first


def record(
    events: PluginEvents,
    about: Any,
    reason: str,
    message: str,
    *,
    warning: bool = False,
    action: str | None = None,
    once: OnceMemory | None = None,
) -> bool:
    """Record an event about an Object, a mapping or a model, unless it is in `once`. Never blocks.

    Returns whether it was recorded. TypeError for a reason or a message that is no text, ValueError for a reason that
    is not one word.
    """
    for name, text in (("reason", reason), ("message", message)):
        if not isinstance(text, str):
            raise TypeError(f"the {name} of an event is a text, got {text!r:.80}")
    if not _REASON(reason) or len(reason) > _MAX_REASON:
        raise ValueError(
            f"invalid reason {reason!r:.80} of an event: it must be one word of at most {_MAX_REASON} letters, digits, "
            "`_`, `,` and `:` that begins with a letter, such as `BackupFailed`"
        )
    obj = about if isinstance(about, Mapping) else _mapping_of(about)
    metadata = obj.get("metadata") or {}
    if once is not None:
        generation = metadata.get("generation") or 0
        named = (obj.get("apiVersion"), obj.get("kind"), metadata.get("namespace"), metadata.get("name"))
        if not once.first(metadata.get("uid") or named, generation, reason, message):
            return False
    (events.warning if warning else events.normal)(obj, reason, message, action=action)
    return True


def gone(kind: Kind, request: Request, absence: int = 0) -> dict[str, Any]:
    """Return what an event names of an object of which only the key is left; `absence` is as its generation."""
    metadata = {"name": request.name, "namespace": request.namespace, "generation": absence}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def _mapping_of(obj: Any) -> Mapping[str, Any]:
    """Return a typed object as a mapping; TypeError for anything that has no metadata."""
    mapping = mapping_of(obj) if hasattr(obj, "metadata") else {}
    if "metadata" not in mapping:
        raise TypeError(f"an event needs an object with metadata, not a {type(obj).__name__}")
    return mapping
