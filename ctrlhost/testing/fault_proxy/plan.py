"""Assign faults to requests: first those that a test ordered, then random ones drawn from a seed."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ctrlhost.testing.fault_proxy.fault import OF_BODIES, OF_CONNECTIONS, OF_WATCHES, Fault, Injected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost.testing.faults import RequestInfo

_KEPT = 10_000

#: The relative frequency of each kind in a storm; silences, which last until a timeout, are rare.
WEIGHTS: Mapping[str, float] = {
    "refuse": 1,
    "bad-tls": 1,
    "answer": 6,
    "reset": 2,
    "stall": 0.2,
    "delay": 2,
    "cut-headers": 2,
    "cut": 5,
    "truncate": 4,
    "half-open": 0.2,
    "duplicate": 5,
    "garbage": 2,
    "error-frame": 4,
    "older": 2,
}
_OF_READS = (410, 429, 500, 503, 403, 401, 504)
_OF_WRITES = (429, 500, 503, 403, 401)
_SILENT = frozenset({"stall", "half-open"})
_READS = frozenset({"list", "watch"})


@dataclass(frozen=True, slots=True)
class _Order:
    fault: Fault
    verb: str | None
    resource: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class RandomFaults:
    """Random faults, equal for equal seeds and the same request of a verb and path."""

    seed: int
    #: The share of requests that are hit.
    rate: float
    #: The share of watches that are hit, usually all, since each lives long.
    watches: float
    #: The share of new connections that fail.
    connections: float
    #: The longest delay, and the longest time until a watch is hit, in seconds.
    within: float
    #: How long a silence lasts before it ends in a reset, in seconds; 0 is forever.
    silence: float
    weights: Mapping[str, float]

    def draw(self, verb: str, path: str, nth: int, again: int = 0) -> Fault | None:
        """Return the fault for a request, or None; `again` counts the faults that have hit it."""
        rng = random.Random(f"{self.seed} {verb} {path} {nth} {again}")  # noqa: S311 - must be reproducible, not secret
        rate = {"watch": self.watches, "connect": self.connections}.get(verb, self.rate)
        if rng.random() >= rate:
            return None
        weights = {kind: weight for kind, weight in self.weights.items() if weight > 0 and _can_hit(kind, verb, again)}
        if not weights:
            return None
        return self._make(rng.choices(list(weights), list(weights.values()))[0], verb, rng)

    def _make(self, kind: str, verb: str, rng: random.Random) -> Fault:
        status = rng.choice(_OF_READS if verb in _READS else _OF_WRITES)
        if kind == "answer" and status == 504:
            return Fault.too_large()
        return Fault(
            kind,  # type: ignore[arg-type]  # a storm's kinds were checked when it was made
            status=status,
            retry_after=1 if status == 429 and rng.random() < 0.5 else None,
            seconds=rng.random() * self.within if kind == "delay" else self.silence if kind in _SILENT else 0.0,
            after=rng.choice((0, 0, 1, 2, 5)) if verb == "watch" else 0,
            part=rng.random(),
            within=rng.random() * self.within,
        )


@dataclass(slots=True)
class GlobalFaults:
    """Faults of all requests; set by tests, read in the proxy's loop."""

    latency: float = 0.0
    #: Cleared while the network is silent.
    flowing: asyncio.Event = field(default_factory=asyncio.Event)

    async def pass_through(self) -> None:
        """Wait for the latency of the network, and while it is silent."""
        if self.latency:
            await asyncio.sleep(self.latency)
        await self.flowing.wait()


class Plan:
    """Assigns faults and records those that struck. All methods may be called from any thread."""

    def __init__(self) -> None:
        """Start without faults."""
        self._lock = threading.Lock()
        self._orders: list[_Order] = []
        self._storm: RandomFaults | None = None
        self._requests: Counter[tuple[str, str]] = Counter()
        self._connections = 0
        #: Requests received so far; counted in the proxy's loop.
        self.requests = 0
        self.counts: Counter[str] = Counter()
        self.total = 0
        #: The newest ten thousand.
        self.log: deque[Injected] = deque(maxlen=_KEPT)

    def order(self, fault: Fault, verb: str | None, resource: str | None, name: str | None, times: int) -> None:
        """Add a fault for the next matching requests."""
        with self._lock:
            self._orders += [_Order(fault, verb, resource, name)] * times

    def storm(self, storm: RandomFaults | None) -> None:
        """Draw random faults from now on, or none."""
        with self._lock:
            self._storm = storm

    def left(self) -> int:
        """Return the number of ordered faults that are still pending."""
        return len(self._orders)

    def clear(self) -> None:
        """Drop the ordered faults and end the storm."""
        with self._lock:
            self._orders.clear()
            self._storm = None

    def for_connection(self) -> Injected | None:
        """Return the fault of the next connection, or None."""
        with self._lock:
            self._connections += 1
            return self._find("connect", "", "", "", self._connections)

    def for_request(self, request: RequestInfo, path: str) -> Injected | None:
        """Return the fault of a request, or None; `struck` counts it."""
        with self._lock:
            self._requests[request.verb, path] += 1
            nth = self._requests[request.verb, path]
            return self._find(request.verb, path, request.resource, request.name, nth)

    def _find(self, verb: str, path: str, resource: str, name: str, nth: int) -> Injected | None:
        for order in self._orders:
            fits = (order.fault.kind in OF_CONNECTIONS) == (verb == "connect") and (
                verb == "connect"
                or (order.verb in (None, verb) and order.resource in (None, resource) and order.name in (None, name))
            )
            if fits:
                self._orders.remove(order)
                return Injected(0, order.fault, verb, path, nth, None)
        storm = self._storm
        fault = storm.draw(verb, path, nth) if storm is not None else None
        return None if storm is None or fault is None else Injected(0, fault, verb, path, nth, storm.seed)

    def following(self, hit: Injected) -> Injected | None:
        """Return the next fault of a watch that continues after one of a storm."""
        storm = self._storm
        if storm is None or hit.seed is None or hit.verb != "watch":
            return None
        fault = storm.draw(hit.verb, hit.path, hit.nth, hit.again + 1)
        return None if fault is None else replace(hit, fault=fault, again=hit.again + 1)

    def struck(self, injected: Injected) -> Injected:
        """Count a fault and log it."""
        with self._lock:
            self.total += 1
            self.counts[injected.fault.kind] += 1
            numbered = replace(injected, number=self.total)
            self.log.append(numbered)
        return numbered


def _can_hit(kind: str, verb: str, again: int) -> bool:
    if again:
        return kind in OF_BODIES
    if verb == "connect":
        return kind in OF_CONNECTIONS
    if kind in OF_CONNECTIONS:
        return False
    if kind in OF_WATCHES:
        return verb == "watch"
    return kind != "older" or verb in _READS
