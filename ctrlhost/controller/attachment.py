"""Turning a declared source into an informer, a handler that fills the queue, and a lister."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.index_path import index_function
from ctrlhost.controller.sources import For, Owns, Watches
from ctrlhost.errors import CtrlhostError, PluginLoadError
from ctrlhost.informers.mappings import ByIndex
from ctrlhost.own_writes.overlay import PluginLister
from ctrlhost.request import Request
from ctrlhost.selectors.namespaces import narrowed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ctrlhost.cache import Object
    from ctrlhost.client import Client
    from ctrlhost.controller.services import PluginScope
    from ctrlhost.controller.sources import KindSource, Reads
    from ctrlhost.informers import Informer
    from ctrlhost.own_writes.self_events import SelfEvents
    from ctrlhost.selectors.namespaces import Namespaces
    from ctrlhost.workqueue import WorkQueue

#: What a first list and resyncs bring comes after all that really changed.
_LOW_PRIORITY = -100
#: How long the server may take to say whether a kind has namespaces, in seconds.
_PATIENCE = 2.0


@dataclass(frozen=True, slots=True)
class Primary:
    """The kind that is reconciled, and its informer once that is attached."""

    source: For
    informer: Informer | None


@dataclass(slots=True)
class Attachment:
    """A source at work."""

    source: KindSource
    informer: Informer
    #: The queue's handler on the informer; None for a source that is only read.
    handle: Any
    lister: PluginLister

    def has_synced(self) -> bool:
        """Say whether the first list is in the cache and was handed to the queue."""
        return self.informer.has_synced and (self.handle is None or self.handle.has_synced)

    def detach(self) -> None:
        """Fill the queue no more; the lister stays good."""
        if self.handle is not None:
            self.handle.remove()
            self.handle = None

    def release(self) -> None:
        """Give the informer back; the last of its users stops it."""
        self.detach()
        self.informer.release()

    def describe(self) -> str:
        """Name the source and how far it is, for the message of a sync that took too long."""
        return f"{self.source.kind} ({self.source.api_version}, {self.informer.state})"


def primary_lister(attachments: Iterable[Attachment]) -> PluginLister | None:
    """Give the lister of `For`'s kind, None without one."""
    return next((one.lister for one in attachments if isinstance(one.source, For)), None)


def listers_of(attachments: Iterable[Attachment]) -> dict[tuple[str, str], PluginLister]:
    """Give the listers by apiVersion and kind: of two sources of one kind the first, and `For` before all others."""
    listers: dict[tuple[str, str], PluginLister] = {}
    for one in attachments:
        if isinstance(one.source, For):
            listers[one.source.api_version, one.source.kind] = one.lister
        listers.setdefault((one.source.api_version, one.source.kind), one.lister)
    return listers


def requests_of_primary(attachments: Iterable[Attachment]) -> list[Request]:
    """Give the key of every object of `For`'s kind."""
    informers = (one.informer for one in attachments if isinstance(one.source, For))
    return [Request(obj.name, obj.namespace) for informer in informers for obj in informer.lister.list()]


def declare_source(plugin: PluginScope, source: KindSource, limit: Sequence[str] | None) -> None:
    """Say to the factory what a source will read, so that an informer that several share keeps enough for all."""
    plugin.services.factory.declare(
        source.api_version,
        source.kind,
        namespaces=watched_namespaces(plugin.services.client, source, limit),
        label_selector=source.label_selector,
        field_selector=source.field_selector,
        reads=reads_with_indexes(source),
    )


def attach_source(
    plugin: PluginScope,
    source: KindSource,
    queue: WorkQueue,
    primary: Primary | None,
    limit: Sequence[str] | None,
    echoes: SelfEvents | None,
) -> Attachment:
    """Have a source fill the queue; `limit` are the namespaces that the operator allows, None for all."""
    indexes = {name: f"{plugin.name}/{name}" for name in source.indexes}
    functions = {name: index_function(by) for name, by in source.indexes.items()}
    informer = plugin.services.factory.informer(
        source.api_version,
        source.kind,
        namespaces=watched_namespaces(plugin.services.client, source, limit, ask=True),
        label_selector=source.label_selector,
        field_selector=source.field_selector,
        reads=reads_with_indexes(source),
    )
    try:
        return _attached(plugin, source, informer, queue, primary, indexes, functions, echoes)
    except BaseException:
        informer.release()
        raise


def _attached(
    plugin: PluginScope,
    source: KindSource,
    informer: Informer,
    queue: WorkQueue,
    primary: Primary | None,
    indexes: Mapping[str, str],
    functions: Mapping[str, Any],
    echoes: SelfEvents | None,
) -> Attachment:
    indexed = plugin.indexed(informer)
    for name, by in source.indexes.items():
        if name not in indexed:
            informer.indexer.add_indexers({indexes[name]: functions[name]})
            indexed[name] = by
        elif indexed[name] != by:
            what = f"two of its sources index {source.kind} by `{name}`, and not by the same"
            raise PluginLoadError(plugin.name, f"plugin `{plugin.name}`: {what}", hint="give one of them another name")
    written = plugin.written.follow(source.api_version, source.kind, informer)
    predicates = list(source.predicates)
    if echoes is not None:
        echoes.listen(source.api_version, source.kind, informer)
        predicates.append(echoes.predicate(written))
    mapping = _mapping(plugin, source, primary)
    handle = None
    if mapping is not None:
        # A priority of the source's own holds for everything that it brings, first lists and resyncs too.
        low = _LOW_PRIORITY if source.priority is None else source.priority
        handle = informer.enqueue_to(
            queue, key=mapping, predicates=tuple(predicates), priority=source.priority, low_priority=low
        )
    return Attachment(source, informer, handle, PluginLister(informer, written, indexes))


def watched_namespaces(
    client: Client, source: KindSource, limit: Sequence[str] | None, *, ask: bool = False
) -> Namespaces:
    """Give the namespaces of a source's informer, None for all; a cluster-scoped kind is in none of them.

    A kind that nobody here knows counts as namespaced, unless the server may be asked.
    """
    namespaces = narrowed(source.namespaces, limit)
    if namespaces is None:
        return None
    resource = client.resources.known(source.api_version, source.kind)
    if resource is None and ask:
        try:
            resource = client.resource(source.api_version, source.kind, timeout=_PATIENCE)
        except CtrlhostError:
            # Not served yet, or no server: the informer finds it out when it can.
            return namespaces
    return namespaces if resource is None or resource.namespaced else None


def reads_with_indexes(source: KindSource) -> Reads:
    """Give what must be cached for a source: what it reads, and what its index paths look at."""
    if source.reads is None or not source.indexes:
        return source.reads
    if any(not isinstance(by, str) for by in source.indexes.values()):
        # A function may look at anything.
        return None
    paths = [by.partition("[")[0] for by in source.indexes.values() if isinstance(by, str)]
    if source.reads == "metadata":
        beyond = [path for path in paths if not path.startswith("metadata.")]
        return tuple(beyond) if beyond else "metadata"
    return (*source.reads, *paths)


def _mapping(plugin: PluginScope, source: KindSource, primary: Primary | None) -> Any:
    """Give what the handler makes of an object: a word or an Owner that the core knows, or a function."""
    if isinstance(source, For):
        return "object"
    if isinstance(source, Owns) and primary is not None:
        # Imported late: a set-up without a cluster needs no informers.
        from ctrlhost.informers import Owner

        return Owner(primary.source.api_version, primary.source.kind, controller=source.controller)
    if not isinstance(source, Watches):
        return None
    if isinstance(source.map, ByIndex) and primary is not None and primary.informer is not None:
        return _by_index(f"{plugin.name}/{source.map.index}", primary.informer)
    return source.map


def _by_index(name: str, informer: Informer) -> Any:
    from ctrlhost import _core

    indexer = informer.indexer
    if isinstance(indexer, _core.Indexer):
        return _core.ByIndex(indexer, name)

    def index(obj: Object) -> list[Request]:
        """Find the same where namespaces have caches of their own, or a view chooses."""
        return [Request(found.name, found.namespace) for found in indexer.by_index(name, obj.key)]

    return index
