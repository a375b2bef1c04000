"""What the sharded informers of a host hold, for the protocol of shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost import _core

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ctrlhost.coordination.ownership import Span
    from ctrlhost.informers import InformerFactory
    from ctrlhost.supervisor.runtime import PluginRuntime

_LINES = ("namespace", "uid")


class ShardCaches:
    """The ranges in the caches of one host. Callable from any thread."""

    def __init__(self, factory: InformerFactory, plugins: Sequence[PluginRuntime]) -> None:
        """Hold nothing yet."""
        self._ranges = factory.ranges
        self._plugins = plugins

    def hold(self, wanted: Collection[Span], *, spread: float = 0.0) -> None:
        """Hold these ranges, and no others; list what is new after a random part of `spread` seconds."""
        for line in _LINES:
            self._ranges.hold(line, [(span.start, span.end) for span in wanted if span.line == line], spread=spread)

    def holds(self, span: Span) -> bool:
        """Return whether every sharded source has listed the range, and its controller's queue knows."""
        return self._ranges.holds(*span)

    def contents(self, span: Span) -> Sequence[tuple[int, int]]:
        """Return the hashes of a range in order, each with its number of objects."""
        return self._ranges.contents(*span)

    def describe(self, line: str, place: int) -> str:
        """Return in words what has a hash on a line."""
        return self._ranges.describe(line, place)

    def echoed(self, span: Span) -> bool:
        """Return whether the caches show what the plugins have written in the range; by uid, anywhere."""

        def concerns(key: tuple[str, str]) -> bool:
            return span.line == "uid" or any(span.covers(span.line, _core.shard_hash(text)) for text in key)

        contexts = [plugin.context for plugin in self._plugins]
        return all(context.scope.own_writes.shown(concerns) for context in contexts if context is not None)
