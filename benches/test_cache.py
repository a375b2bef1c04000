"""Delta FIFO, store and decoder across the border, against plain Python, kopf's and the official client's decoding."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from benches.pods import FIRST_REVISION, pod
from ctrlhost import _core
from ctrlhost.cache import DeltaFIFO, Indexer, Object, namespace_index

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

    from benches.ratios import Ratios

ROUNDS = 5
OBJECTS = 2_000


@pytest.fixture(scope="module")
def pods() -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "kind": "Pod", **pod(number, FIRST_REVISION + number)} for number in range(OBJECTS)]


@pytest.fixture(scope="module")
def frames(pods: list[dict[str, Any]]) -> bytes:
    return b"".join(msgspec.json.encode({"type": "MODIFIED", "object": pod}) + b"\n" for pod in pods)


def seconds(benchmark: BenchmarkFixture, job: Callable[..., object], *arguments: object) -> float:
    benchmark.pedantic(job, args=arguments, rounds=ROUNDS, warmup_rounds=1)
    median: float = benchmark.stats.stats.median / OBJECTS
    return median


def once(job: Callable[[], object]) -> float:
    """Time a peer: the median of five, in seconds per object."""
    import time

    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        job()
        taken.append((time.perf_counter() - start) / OBJECTS)
    return sorted(taken)[ROUNDS // 2]


def test_watch_frames_into_the_cache(benchmark: BenchmarkFixture, ratios: Ratios, frames: bytes) -> None:
    """Turn the bytes of a watch into cached, indexed objects; the peers only build objects and keep them in a dict."""
    lines = frames.splitlines()

    def ours() -> None:
        informer = _core.SharedInformer("pods", "v1", "Pod")
        informer.feed_watch(frames)
        informer.process()

    def plain_json() -> None:
        cache = {}
        for line in lines:
            changed = json.loads(line)["object"]
            cache[changed["metadata"]["namespace"], changed["metadata"]["name"]] = changed

    def official() -> None:
        from kubernetes import client, watch

        watcher, cache = watch.Watch(), {}
        watcher._api_client = client.ApiClient()
        for line in lines:
            changed = watcher.unmarshal_event(line.decode(), "V1Pod")["object"]
            cache[changed.metadata.namespace, changed.metadata.name] = changed

    ratios.add(
        "decode",
        "watch frame of 5 KB to cached object",
        "s",
        seconds(benchmark, ours),
        kopf_json_loads=once(plain_json),
        official_client=once(official),
    )


def test_delta_fifo(
    benchmark: BenchmarkFixture, ratios: Ratios, pods: list[dict[str, Any]], go_peers: Callable[..., dict[str, float]]
) -> None:
    """Add, update and pop each object once, from Python."""
    objects = [Object(pod) for pod in pods]

    def ours() -> None:
        fifo = DeltaFIFO()
        for obj in objects:
            fifo.add(obj)
            fifo.update(obj)
        for _ in objects:
            fifo.pop(lambda deltas, initial: None)

    peer = go_peers("fifo").get("add_update_pop", 0.0)
    ratios.add("delta FIFO", "add + update + pop from Python, per key", "s", seconds(benchmark, ours), client_go=peer)


def test_store(benchmark: BenchmarkFixture, ratios: Ratios, pods: list[dict[str, Any]]) -> None:
    """Add each object to a store with one index and read it back."""
    objects = [Object(pod) for pod in pods]
    holders = [SimpleNamespace(key=obj.key, namespace=obj.namespace) for obj in objects]

    def ours() -> None:
        store = Indexer({"namespace": namespace_index})
        for obj in objects:
            store.add(obj)
        for obj in objects:
            store.get_by_key(obj.key)

    def plain() -> None:
        items: dict[str, Any] = {}
        index: dict[str, set[str]] = {}
        for holder in holders:
            items[holder.key] = holder
            index.setdefault(holder.namespace, set()).add(holder.key)
        for holder in holders:
            items.get(holder.key)

    ratios.add("store", "add + get by key, one index", "s", seconds(benchmark, ours), plain_dict=once(plain))
