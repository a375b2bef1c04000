"""The client of a plugin, which records its writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from ctrlhost.client import Client
from ctrlhost.own_writes.self_events import DELETION

if TYPE_CHECKING:
    from ctrlhost.client.target import Target, WriteVerb
    from ctrlhost.duration import DurationLike
    from ctrlhost.own_writes.overlay import OwnWrites
    from ctrlhost.own_writes.self_events import SelfEvents
    from ctrlhost.transport.interface import Query
    from ctrlhost.transport.steps import Steps


class WritingClient(Client):
    """A client whose writes the plugin reads at once; see `ctrlhost.own_writes.overlay`."""

    _own_writes: OwnWrites
    _self_events: SelfEvents | None

    @classmethod
    def of(
        cls,
        client: Client,
        own_writes: OwnWrites,
        *,
        self_events: SelfEvents | None = None,
    ) -> Self:
        """Return a client with the connections of `client`, which records its writes in `own_writes`."""
        own = cls.__new__(cls)
        own.__dict__.update(client.__dict__)
        own._own_writes, own._self_events = own_writes, self_events  # noqa: SLF001 - the same class
        return own

    def _write(
        self,
        verb: WriteVerb,
        target: Target,
        query: Query | None,
        content: Any,
        *,
        content_type: str = "application/json",
        timeout: DurationLike | None,
    ) -> Steps[dict[str, Any]]:
        followed = self._own_writes.of(target.resource.group, target.resource.kind)
        key, kind, events = (target.namespace, target.name or ""), ("", ""), self._self_events
        if events is not None:
            kind = (target.resource.api_version, target.resource.kind)
            events = events if events.concern(kind) else None
        # The cache may show the write before its answer arrives.
        known = events.before(kind, key) if events is not None else None
        for pending in followed:
            pending.begin(key)
        try:
            sent = self._execute(verb, target, query, content, content_type=content_type, timeout=timeout)
            answer, raw = yield from sent
            if (verb == "delete" and not _remains(answer)) or ended(answer):
                uid = (answer.get("details") or {}).get("uid") or (answer.get("metadata") or {}).get("uid", "")
                if events is not None and not self.dry_run:
                    events.deleted(kind, key, uid)
                for pending in followed:
                    pending.deleted(key, uid)
            elif answer.get("kind") == target.resource.kind:
                # A subresource such as `scale` answers with a kind of its own.
                if events is not None:
                    events.wrote(known, DELETION if verb == "delete" else content, answer)
                for pending in followed:
                    pending.wrote(answer, raw)
            return answer
        finally:
            for pending in followed:
                pending.end(key)


def ended(answer: dict[str, Any]) -> bool:
    """Return whether a write has ended an object that was being deleted, such as by removing its last finalizer.

    The answer is then the object's last state, with the version that it had before.
    """
    metadata = answer.get("metadata") or {}
    if not metadata.get("deletionTimestamp") or metadata.get("deletionGracePeriodSeconds"):
        return False
    # A Namespace has finalizers of its own.
    return not metadata.get("finalizers") and not (answer.get("spec") or {}).get("finalizers")


def _remains(answer: dict[str, Any]) -> bool:
    """Return whether the object still exists after a deletion, for its finalizers or its grace period."""
    return answer.get("kind") != "Status" and bool((answer.get("metadata") or {}).get("deletionTimestamp"))
