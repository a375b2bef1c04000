"""Joining what the reflectors and engines of an informer say of themselves into its status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.reflector.status import InformerStatus, State
from ctrlhost.selectors.namespaces import NamespaceSelector

if TYPE_CHECKING:
    from ctrlhost.informers.informer import Informer

# The state that an informer shows is the first of these that one of its reflectors is in.
_WORST_FIRST: tuple[State, ...] = ("waiting", "listing", "reconnecting", "watching", "stopped")


def worst_state(informer: Informer) -> tuple[State, str]:
    """Give the worst state that one of its reflectors is in, and the reason."""
    if informer.stopped:
        return "stopped", ""
    found = [(part.reflector.status.state, part.reflector.status.reason) for part in informer.parts]
    if informer.following is not None:
        found.append(informer.following.state)
    return min(found, key=lambda each: _WORST_FIRST.index(each[0]), default=("watching", ""))


def status_of(informer: Informer) -> InformerStatus:
    """Say how an informer is doing at this moment."""
    now = informer.clock.now()
    reflectors = [part.reflector.status for part in informer.parts]
    stats = [part.engine.stats() for part in informer.parts]
    state, reason = worst_state(informer)

    def age(times: list[float | None]) -> float | None:
        known = [each for each in times if each is not None]
        return now - min(known) if known else None

    remaining = [each.remaining for each in reflectors if each.remaining is not None]
    return InformerStatus(
        key=informer.key,
        api_version=informer.api_version,
        kind=informer.kind,
        namespaces=_namespaces(informer),
        state=state,
        reason=reason,
        state_age=age([each.since for each in reflectors if each.state == state]),
        has_synced=informer.has_synced,
        users=informer.users,
        objects=sum(each["objects"] for each in stats),
        bytes=sum(each["bytes"] for each in stats),
        resource_version=informer.last_resource_version,
        last_byte_age=age([each.last_byte_at for each in reflectors]),
        last_event_age=age([each.last_event_at for each in reflectors]),
        last_bookmark_age=age([each.last_bookmark_at for each in reflectors]),
        last_list_age=age([each.last_list_at for each in reflectors]),
        relists=sum(max(each.lists - 1, 0) for each in reflectors),
        errors=sum(sum(each.errors.values()) for each in reflectors),
        last_error=next((each.last_error for each in reflectors if each.last_error), ""),
        listing=sum(each.listing for each in reflectors),
        remaining=sum(remaining) if remaining else None,
    )


def _namespaces(informer: Informer) -> tuple[str, ...] | None:
    if isinstance(informer.scope.namespaces, NamespaceSelector):
        return tuple(sorted(part.namespace for part in informer.parts))
    return informer.scope.namespaces
