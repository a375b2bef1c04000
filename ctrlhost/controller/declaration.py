"""What a plugin declares of a controller: whether it can work, and how its sources are named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.controller.sources import Every, For, Owns, Watches
from ctrlhost.errors import PluginLoadError
from ctrlhost.informers.mappings import ByIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.controller.sources import KindSource


def check_declaration(plugin: str, name: str, reconcile: Any, sources: Sequence[Any]) -> None:
    """Refuse what can not work: PluginLoadError with the controller's name."""

    def wrong(message: str, hint: str | None = None) -> PluginLoadError:
        return PluginLoadError(plugin, f"controller `{plugin}/{name}`: {message}", hint=hint)

    if not name or "/" in name:
        raise PluginLoadError(plugin, f"plugin `{plugin}`: a controller needs a name without a slash, not {name!r}")
    if not callable(reconcile):
        raise wrong(f"the reconciler is {reconcile!r}, which can not be called")
    for source in sources:
        if not hasattr(source, "priority"):
            raise wrong(f"{source!r} is no source", "sources are For, Owns, Watches and Every")
    primaries = sum(isinstance(source, For) for source in sources)
    if primaries > 1:
        raise wrong("it has more than one `For`", "use `Watches` with a map for further kinds")
    if not primaries and any(isinstance(source, Owns) for source in sources):
        raise wrong("`Owns` needs a `For`, whose objects are the owners")
    indexes = next((source.indexes for source in sources if isinstance(source, For)), {})
    for source in sources:
        if isinstance(source, Watches) and isinstance(source.map, ByIndex) and source.map.index not in indexes:
            raise wrong(f"`ByIndex` needs the index `{source.map.index}` on the controller's `For`")
    if not primaries and any(isinstance(source, Every) and source.requests is None for source in sources):
        raise wrong("`Every` without requests needs a `For`, whose objects it goes through")


def describe_source(source: KindSource | Every) -> str:
    """Name a source, for the controller's status."""
    if isinstance(source, Every):
        return f"every {source.seconds:g} s"
    return f"{type(source).__name__} {source.kind} ({source.api_version})"
