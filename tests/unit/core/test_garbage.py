"""Reference cycles through every object of the core that keeps a Python object."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from ctrlhost import Request, _core
from ctrlhost.cache import DeltaFIFO, Indexer, Predicate, SharedInformer
from ctrlhost.testing import ManualClock
from ctrlhost.workqueue import MaxOfRateLimiter, WithMaxWaitRateLimiter, WorkQueue
from tests.support.shared_informers import pod, relist, watch

behaviour = pytest.mark.behaviour


class Owner:
    """What keeps an object of the core, which keeps methods of this."""

    def __init__(self) -> None:
        self.core: Any = None

    def when(self, key: Any) -> float:
        return 0.0

    def forget(self, key: Any) -> None: ...

    def num_requeues(self, key: Any) -> int:
        return 0

    def group(self, key: Any) -> str:
        return str(key)

    def transform(self, obj: Any) -> Any:
        return obj

    def key(self, obj: Any) -> str:
        return str(obj.name)

    def values(self, obj: Any) -> list[str]:
        return [obj.name]

    def requests(self, obj: Any) -> list[Request]:
        return [Request(obj.name)]

    def passes(self, old: Any, new: Any) -> bool:
        return True

    def now(self) -> float:
        return 0.0

    def add_many(self, keys: Any, priority: int | None = None) -> None: ...

    def list_keys(self) -> list[str]:
        return []

    def get_by_key(self, key: str) -> None:
        return None


class Named(NamedTuple):
    name: str


class Key(Named):
    """A key with attributes."""

    owner: Any


class Clock(ManualClock):
    owner: Any


def key_of(owner: Owner) -> Key:
    key = Key("key")
    key.owner = owner
    return key


def queue_with(use: Callable[[WorkQueue, Key], object]) -> Callable[[Owner], WorkQueue]:
    """Return a maker of queues, which have done that with a key that refers to the owner."""

    def make(owner: Owner) -> WorkQueue:
        work_queue = WorkQueue(clock=ManualClock())
        use(work_queue, key_of(owner))
        return work_queue

    return make


def in_progress(work_queue: WorkQueue, key: Key) -> None:
    work_queue.add(key)
    work_queue.get()


def clock_of(owner: Owner) -> WorkQueue:
    clock = Clock()
    clock.owner = owner
    return WorkQueue(clock=clock)


def informer(**options: Any) -> SharedInformer:
    return SharedInformer("pods", "v1", "Pod", **options)


def fed(shared: SharedInformer) -> SharedInformer:
    relist(shared, pod("a"), pod("b"))
    watch(shared, "MODIFIED", pod("a", 2))
    return shared


def handling(*args: Any, **options: Any) -> Any:
    """Return an informer with a handler: its listener, which keeps the informer, or the informer itself."""
    shared = informer()
    added = shared.enqueue_to(*args, **options)
    fed(shared)
    if isinstance(added, int):
        return shared
    assert not added.deliver()
    return added


def deferred(owner: Owner) -> Any:
    callbacks: list[Any] = []
    store = informer().indexer
    store.add_indexers({"by name": _core.Deferred(_core.CallbackMetrics(owner.values, owner), callbacks.append)})
    return store, *callbacks


def indexed(owner: Owner) -> SharedInformer:
    shared = informer()
    shared.indexer.add_indexers({"by name": owner.values})
    return fed(shared)


def index_mapping(owner: Owner) -> _core.ByIndex:
    return _core.ByIndex(Indexer({"by name": owner.values}), "by name")


def progress_of(owner: Owner, frames: bytes) -> _core.WatchProgress:
    progress = informer().feed_watch(frames)
    assert progress.error is not None
    progress.error["owner"] = owner
    return progress


MAKERS: dict[str, Callable[[Owner], Any]] = {
    "queue: limiter": lambda owner: WorkQueue(rate_limiter=owner),
    "queue: limiter in limiters": lambda owner: WorkQueue(
        rate_limiter=MaxOfRateLimiter(WithMaxWaitRateLimiter(owner, 1.0))
    ),
    "queue: fair_by": lambda owner: WorkQueue(fair_by=owner.group),
    "queue: clock": clock_of,
    "queue: key": queue_with(WorkQueue.add),
    "queue: key in a tuple": queue_with(lambda work_queue, key: work_queue.add((key, 1))),
    "queue: delayed key": queue_with(lambda work_queue, key: work_queue.add_after(key, 60)),
    "queue: rate-limited key": queue_with(WorkQueue.add_rate_limited),
    "queue: key in progress": queue_with(in_progress),
    "limiter": MaxOfRateLimiter,
    "limiter with a maximum": lambda owner: WithMaxWaitRateLimiter(owner, 1.0),
    "indexer: key": lambda owner: Indexer(key_func=owner.key),
    "indexer: transform": lambda owner: Indexer(transform=owner.transform),
    "indexer: index function": lambda owner: Indexer({"by name": owner.values}),
    "FIFO: key": lambda owner: DeltaFIFO(key_func=owner.key),
    "FIFO: transform": lambda owner: DeltaFIFO(transform=owner.transform),
    "FIFO: known objects": DeltaFIFO,
    "FIFO: known indexer": lambda owner: DeltaFIFO(Indexer({"by name": owner.values})),
    "predicate": lambda owner: Predicate.negate(owner.passes),
    "predicate of predicates": lambda owner: ~(Predicate.generation_changed() & owner.passes | owner.passes),
    "callback metrics": lambda owner: _core.CallbackMetrics(owner.requests, owner),
    "index mapping": index_mapping,
    "informer: transform": lambda owner: fed(informer(transform=owner.transform)),
    "informer: clock": lambda owner: fed(informer(clock=owner)),
    "informer: index function": indexed,
    "informer: deferred index": deferred,
    "informer: deferring function": lambda owner: informer(deferred=owner.values),
    "deferred index function": lambda owner: _core.Deferred(owner.values, print),
    "deferred index": lambda owner: deferred(owner)[1],
    "informer: queue": lambda owner: handling(owner),
    "informer: limiter of a queue": lambda owner: handling(WorkQueue(rate_limiter=owner)),
    "informer: map": lambda owner: handling(WorkQueue(), owner.requests),
    "informer: measured map": lambda owner: handling(WorkQueue(), _core.CallbackMetrics(owner.requests)),
    "informer: index mapping": lambda owner: handling(WorkQueue(), index_mapping(owner)),
    "informer: predicate": lambda owner: handling(
        WorkQueue(), predicates=[owner.passes, Predicate.all_of(owner.passes, ~Predicate.negate(owner.passes))]
    ),
    "listener": lambda owner: informer(transform=owner.transform).add_listener(),
    "listener: full": lambda owner: informer().add_listener(full=owner.passes),
    "watch: error": lambda owner: progress_of(owner, json.dumps({"type": "ERROR", "object": {}}).encode() + b"\n"),
}


@behaviour("findings/FQ7")
@pytest.mark.parametrize("name", MAKERS)
def test_a_cycle_through_the_core_is_freed_and_one_in_use_is_not(name: str) -> None:
    owner = Owner()
    owner.core = MAKERS[name](owner)
    kept, reference = owner.core, weakref.ref(owner)
    del owner
    gc.collect()
    # A queue reads its clock without the object, which may have attributes of its own.
    assert (reference() is None) == (name == "queue: clock")
    del kept
    gc.collect()
    assert reference() is None


@behaviour("findings/FQ7")
def test_cycles_that_only_the_core_can_cut_are_freed() -> None:
    owner = Owner()
    store = Indexer(key_func=owner.key)
    store.add_indexers({"itself": store.get})
    shared = informer(transform=owner.transform)
    own_method: Any = shared.remove_handler
    listener = shared.enqueue_to(WorkQueue(), own_method)
    reference = weakref.ref(owner)
    del owner, store, shared, own_method, listener
    gc.collect()
    assert reference() is None


@behaviour("findings/FQ7")
def test_callbacks_of_a_cycle_in_use_survive_collections() -> None:
    owner, work_queue = Owner(), WorkQueue()
    shared = informer()
    owner.core = listener = shared.enqueue_to(work_queue, owner.requests, predicates=[owner.passes])
    del owner
    gc.collect()
    watch(fed(shared), "ADDED", pod("c", 3))
    assert not listener.deliver()
    assert {work_queue.get().name for _ in range(len(work_queue))} == {"a", "b", "c"}


@behaviour("findings/FQ8")
def test_stop_and_removal_drop_handlers() -> None:
    shared, owners = informer(), [Owner(), Owner()]
    stopped, removed = (weakref.ref(owner) for owner in owners)
    # A queue of ours without functions is kept by the informer, everything else by the listener.
    work_queue = WorkQueue(rate_limiter=owners[0])
    shared.enqueue_to(work_queue)
    handle = shared.enqueue_to(owners[1], owners[1].requests)
    listener = shared.add_listener()
    owners.clear()
    del work_queue
    assert None not in (stopped(), removed())
    shared.remove_handler(handle)
    assert handle.closed
    del handle
    assert removed() is None
    shared.stop()
    assert stopped() is None
    assert listener.closed
    assert shared.handler_count == 0
