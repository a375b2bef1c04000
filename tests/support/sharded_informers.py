"""Sharded informers in tests: their factory, the requests that they make, and ranges by what is in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ctrlhost import Client
from ctrlhost._core import shard_hash, shard_selector
from ctrlhost.clock import Clock
from ctrlhost.informers import BackoffOptions, InformerFactory, ReflectorOptions
from ctrlhost.reflector.ranges import END
from tests.support.recording_handler import RecordingHandler
from tests.support.waiting import eventually

ALL = [(0, END)]
HALF = END // 2
QUESTION = {by: shard_selector(by, [(0, 1)]) for by in ("namespace", "uid")}
"""The selector that no object meets, by which an informer asks whether the server filters."""


def only(*texts: str) -> list[tuple[int, int]]:
    """Return the ranges of these namespaces, names or uids alone."""
    return [(shard_hash(text), shard_hash(text) + 1) for text in texts]


def spoken(query: Mapping[str, str]) -> tuple[str, str]:
    """Return what a request of an informer is, and its shard selector."""
    selector = query.get("shardSelector", "")
    if query.get("watch") in ("1", "true"):
        return ("stream" if query.get("sendInitialEvents") == "true" else "watch"), selector
    if query.get("limit") == "1":
        return ("question" if selector in QUESTION.values() else "restored?"), ""
    return "list", selector


class ShardedRig:
    """A factory with one sharded informer, and a handler of it."""

    def __init__(
        self,
        client: Client,
        kind: tuple[str, str] = ("v1", "Pod"),
        by: Any = "uid",
        *,
        namespaces: list[str] | None = None,
        label_selector: str | None = None,
        reads: Any = None,
        transform: Any = None,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        options = {
            "watch_list": False,
            "restorable": False,
            "backoff": BackoffOptions(base=0.001, cap=0.01),
            **options,
        }
        self.by = by
        self.line = "uid" if by in ("uid", "owner") else "namespace"
        self.errors: list[Exception] = []
        self.factory = InformerFactory(
            client,
            clock=clock,
            options=ReflectorOptions(**options),
            on_error=lambda _, error: self.errors.append(error),
        )
        self.informer = self.factory.informer(
            *kind,
            namespaces=namespaces,
            label_selector=label_selector,
            reads=reads,
            transform=transform,
            shard_by=by,
        )
        self.handler = RecordingHandler()
        self.handler.to(self.informer)

    def hold(self, spans: Iterable[tuple[int, int]], *, spread: float = 0.0) -> None:
        self.factory.ranges.hold(self.line, spans, spread=spread)

    def filled(self, spans: Iterable[tuple[int, int]]) -> None:
        """Hold ranges, and wait until they are in the cache."""
        spans = list(spans)
        self.hold(spans)
        eventually(lambda: all(self.factory.ranges.holds(self.line, *span) for span in spans))

    def start(self) -> ShardedRig:
        self.factory.start()
        assert self.factory.wait_for_sync(60)
        return self

    def selector(self, spans: Iterable[tuple[int, int]]) -> str:
        return shard_selector(self.by, list(spans))

    @property
    def names(self) -> list[str]:
        return sorted(obj.name for obj in self.informer.lister.list())

    def shows(self, *names: str) -> None:
        """Wait until the cache has exactly these objects."""
        eventually(lambda: self.names == sorted(names), what=f"{sorted(names)} in the cache")
