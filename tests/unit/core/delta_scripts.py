"""Scripts of changes to objects, and the deltas of a FIFO."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from ctrlhost.cache import DeletedFinalStateUnknown, Delta, DeltaFIFO, Indexer


def thing(name: str, value: int) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": name, "resourceVersion": str(value)}, "v": value}


def things(*texts: str) -> list[dict[str, Any]]:
    return [thing(*split(text)) for text in texts]


def split(text: str) -> tuple[str, int]:
    name = text.rstrip("0123456789")
    return name, int(text[len(name) :])


def fifo_of(known: Iterable[str] | None = None, **options: Any) -> DeltaFIFO:
    """Return a FIFO that knows these objects, such as `["foo5", "bar6"]`; upstream's tables use `Sync` for relists."""
    options.setdefault("emit_replaced", False)
    if known is None:
        return DeltaFIFO(**options)
    store = Indexer()
    store.replace(things(*known))
    return DeltaFIFO(store, **options)


def texts_of(deltas: list[Delta]) -> list[str]:
    """Return deltas as `A foo5` (added), U, D, R, S, and `T foo5` for a tombstone with that last state."""
    texts = []
    for delta in deltas:
        if isinstance(delta.object, DeletedFinalStateUnknown):
            assert delta.type == "Deleted"
            last = delta.object.object
            assert last is not None
            assert last.key == delta.object.key
            texts.append(f"T {last.name}{last['v']}")
        else:
            texts.append(f"{delta.type[0]} {delta.object.name}{delta.object['v']}")
    return texts


def run(fifo: DeltaFIFO, script: str) -> None:
    """Run steps such as `A foo10; U foo12; D foo15; L foo1,bar2; L; resync`."""
    for step in script.split(";"):
        what, _, rest = step.strip().partition(" ")
        match what:
            case "A":
                fifo.add(thing(*split(rest)))
            case "U":
                fifo.update(thing(*split(rest)))
            case "D":
                fifo.delete(thing(*split(rest)))
            case "L":
                fifo.replace(things(*[key for key in rest.split(",") if key]), "0")
            case "resync":
                fifo.resync()
            case _:
                pytest.fail(step)


def ignore(_deltas: list[Delta], _initial: bool) -> None:
    pass


def drain(fifo: DeltaFIFO) -> list[list[str]]:
    popped = []
    while len(fifo):
        popped.append(texts_of(fifo.pop(ignore, timeout=5)))
    return popped
