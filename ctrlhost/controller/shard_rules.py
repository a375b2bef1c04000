"""Which sources a sharded controller can have."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctrlhost.controller.source import KindSource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlhost.client.resources import Resources
    from ctrlhost.config.settings import ShardBy
    from ctrlhost.controller.source import Source

_SHARED = "`shared=True` on the source keeps all of it on every replica"


class Unfit(NamedTuple):
    """Why a controller cannot be sharded as it says, and what to do."""

    text: str
    hint: str


def shard_problem(by: ShardBy, sources: Iterable[Source], needs_leader: bool, resources: Resources) -> Unfit | None:
    """Return what of a controller does not suit what it is sharded by; None for nothing.

    Kinds that are not known yet count as namespaced; their informers hold nothing if they are not.
    """
    if not needs_leader:
        return Unfit(
            "`shard_by` and `needs_leader=False` are mutually exclusive: the latter runs each key on every replica",
            "leave out one of the two",
        )
    kinds = [source for source in sources if isinstance(source, KindSource)]
    if by == "uid" and not any(source.is_primary for source in kinds):
        return Unfit('`shard_by="uid"` needs a `For`, whose objects have the uids', 'use "namespace" or "name"')
    for source in kinds:
        if unfit := _source_problem(by, source, resources):
            return unfit
    return None


def _source_problem(by: ShardBy, source: KindSource, resources: Resources) -> Unfit | None:
    kind = f"{type(source).__name__} {source.kind} ({source.api_version})"
    if source.shared:
        if source.is_primary:
            return Unfit(f"{kind}: the reconciled kind cannot be shared", "`shared=True` is for other sources")
        return None
    resource = resources.known(source.api_version, source.kind)
    if by == "namespace" and resource is not None and not resource.namespaced:
        if source.is_primary:
            return Unfit(
                f'{kind} has no namespace by which `shard_by="namespace"` could share it',
                '`shard_by="name"` suits cluster-scoped kinds',
            )
        return Unfit(f'{kind} has no namespace, as `shard_by="namespace"` needs', _SHARED)
    if source.is_primary or by == "namespace" or (by == "uid" and source.owned):
        return None
    return Unfit(f'{kind}: which replica needs an object of it is unknown with `shard_by="{by}"`', _SHARED)
