"""The delta FIFO compared with a simple model in Python, and a consumer that stores popped objects."""

from __future__ import annotations

import queue
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ctrlhost.cache import DeletedFinalStateUnknown, Delta, DeltaFIFO, Indexer

names = st.sampled_from(["a", "b", "c", "d"])
Seen = tuple[str, bool, int]
"""The type of a delta, whether it is a tombstone, and the version of its object."""


def seen(delta: Delta) -> Seen:
    tombstone = isinstance(delta.object, DeletedFinalStateUnknown)
    last = delta.object.object if isinstance(delta.object, DeletedFinalStateUnknown) else delta.object
    assert last is not None
    return delta.type, tombstone, int(last.resource_version)


class DeltaFIFOMachine(RuleBasedStateMachine):
    """Queue and model pop the same deltas, which produce the same store."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Indexer()
        self.fifo = DeltaFIFO(self.store)
        self.queue: dict[str, list[Seen]] = {}
        self.known: dict[str, int] = {}
        self.truth: dict[str, int] = {}
        """The state of the server according to the events, and the expected final state of the store."""
        self.version = 0
        self.populated = False
        self.initial = 0

    def new_object(self, name: str) -> dict[str, Any]:
        self.version += 1
        metadata = {"name": name, "resourceVersion": str(self.version)}
        return {"apiVersion": "v1", "kind": "Thing", "metadata": metadata}

    def push(self, name: str, delta: Seen) -> None:
        deltas = self.queue.setdefault(name, [])
        deltas.append(delta)
        if [kind for kind, *_ in deltas[-2:]] == ["Deleted", "Deleted"]:
            # Only one of two consecutive deletions is kept: the first, unless it is a tombstone.
            del deltas[-2 if deltas[-2][1] else -1]

    @rule(name=names)
    def add(self, name: str) -> None:
        self.fifo.add(self.new_object(name))
        self.populated = True
        self.truth[name] = self.version
        self.push(name, ("Added", False, self.version))

    @rule(name=names)
    def update(self, name: str) -> None:
        self.fifo.update(self.new_object(name))
        self.populated = True
        self.truth[name] = self.version
        self.push(name, ("Updated", False, self.version))

    @rule(name=names)
    def delete(self, name: str) -> None:
        self.fifo.delete(self.new_object(name))
        self.populated = True
        self.truth.pop(name, None)
        if name in self.queue or name in self.known:
            self.push(name, ("Deleted", False, self.version))

    @rule(listed=st.sets(names))
    def replace(self, listed: set[str]) -> None:
        objects = [self.new_object(name) for name in sorted(listed)]
        self.fifo.replace(objects, str(self.version))
        self.truth = {item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in objects}
        last = {name: deltas[-1][2] for name, deltas in self.queue.items()}
        for name, version in self.truth.items():
            self.push(name, ("Replaced", False, version))
        queued = [name for name in last if name not in listed]
        deleted = queued + sorted(name for name in self.known if name not in listed and name not in last)
        for name in deleted:
            self.push(name, ("Deleted", True, last.get(name, self.known.get(name, 0))))
        if not self.populated:
            self.populated, self.initial = True, len(self.queue)

    @rule()
    def resync(self) -> None:
        self.fifo.resync()
        for name, version in sorted(self.known.items()):
            if name not in self.queue:
                self.push(name, ("Sync", False, version))

    @rule()
    def pop(self) -> None:
        if not self.queue:
            with pytest.raises(queue.Empty):
                self.fifo.pop(self.consume, timeout=0)
            return
        name = next(iter(self.queue))
        expected = self.queue.pop(name)
        initial, self.initial = self.initial > 0, max(self.initial - 1, 0)
        batches: list[tuple[list[Delta], bool]] = []
        popped = self.fifo.pop(
            lambda deltas, is_initial: (batches.append((deltas, is_initial)), self.consume(deltas)), 0
        )
        assert batches == [(popped, initial)]
        assert [seen(delta) for delta in popped] == expected
        kind, _, version = expected[-1]
        self.known.pop(name, None)
        if kind != "Deleted":
            self.known[name] = version

    def consume(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            if isinstance(delta.object, DeletedFinalStateUnknown) or delta.type == "Deleted":
                self.store.delete(delta.object)
            else:
                self.store.add(delta.object)

    @invariant()
    def check_state(self) -> None:
        assert self.fifo.list_keys() == list(self.queue)
        assert len(self.fifo) == len(self.queue)
        assert self.fifo.has_synced() == (self.populated and self.initial == 0)
        assert {obj.key: int(obj.resource_version) for obj in self.store.list()} == self.known

    def teardown(self) -> None:
        while self.queue:
            self.pop()
        assert self.known == self.truth


DeltaFIFOMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestDeltaFIFOModel = DeltaFIFOMachine.TestCase
