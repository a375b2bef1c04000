"""Events over TLS as clusters send them, from their bytes to the queue and to the reconcile; and idle informers.

The stub server is on the same cores; for a pod it takes about 3 µs of them. An event is one chunk and one TLS record,
as the API server writes it.
"""

from __future__ import annotations

import itertools
import json
import time
from typing import TYPE_CHECKING, Any, Literal

import pytest

from benches.pods import pod
from benches.test_informer import median, run
from benches.test_large_store import p99
from ctrlhost.cache import SharedInformer

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.ratios import Ratios

pytestmark = pytest.mark.scale


@pytest.mark.behaviour("scale/SC155")
@pytest.mark.behaviour("scale/SC156")
@pytest.mark.behaviour("faster/FA7")
def test_events_over_tls(
    ratios: Ratios, go_peers: Callable[..., dict[str, float]], stub_pods: Callable[..., Any]
) -> None:
    """The runs of all kinds take turns, since the speed of a machine drifts."""
    pods, events, go_events, rounds = 2_000, 100_000, 20_000, 3
    runs: dict[str, list[dict[str, float]]] = {which: [] for which in ("json", "json-beside", "ctrlhost")}
    plain = []
    with stub_pods(pods, events, batch=1, tls=True) as (url, ca), stub_pods(pods, events, batch=1) as plain_url:
        for _ in range(rounds):
            for which, results in runs.items():
                results.append(run(which, url, events, ca))
            plain.append(run("json", plain_url, events))
    with stub_pods(pods, go_events, batch=1, tls=True) as (url, ca):
        go = {which: go_peers("informer", url, str(go_events), ca, *which) for which in ((), ("json",))}
    json_form, beside, protobuf = (1 / median(results, "events_per_second") for results in runs.values())
    peers = {which: 1 / result["events_per_second"] if result else 0.0 for which, result in go.items()}
    http = 1 / median(plain, "events_per_second")
    ratios.add("scale", "JSON event over TLS", "s", json_form, client_go=peers["json",], plain_http=http)
    ratios.add("scale", "JSON event over TLS, beside a computing thread", "s", beside, alone=json_form)
    ratios.add("scale", "protobuf event over TLS", "s", protobuf, client_go=peers[()], JSON=json_form)


@pytest.mark.behaviour("scale/SC130")
def test_an_event_over_tls_reaches_its_reconcile(ratios: Ratios, stub_pods: Callable[..., Any]) -> None:
    pods, events, pace = 2_000, 100_000, 10_000
    for which, beside in (("latency", "alone"), ("latency-beside", "beside a computing thread")):
        with stub_pods(pods, events, pace, tls=True) as (url, ca):
            figures = run(which, url, events, ca)
        with stub_pods(pods, events, pace) as url:
            plain = run(which, url, events)
        for part in ("p50", "p99"):
            name = f"event over TLS to the start of its reconcile, {beside}, {part}"
            ratios.add("scale", name, "s", figures[part], plain_http=plain[part])


@pytest.mark.behaviour("faster/FA13")
def test_compressed_pods(ratios: Ratios) -> None:
    """Pods in memory, without a server: what they take compressed, and what that costs on the way in and per read."""
    count = 20_000
    pods = [pod(number, number + 1) for number in range(count)]
    plain, packed = cached(pods, "off"), cached(pods, "on")
    while packed.stats()["compressed_objects"] < count:
        time.sleep(0.01)
    ratios.add("scale", "body of a compressed pod", "B", body_of(packed), plain=body_of(plain))
    # In turns, so that a busy machine is busy for both.
    costs = [(changed(packed, pods, turn), changed(plain, pods, turn)) for turn in (1, 2, 3)]
    ratios.add("scale", "event of a pod that is compressed", "s", min(cost for cost, _ in costs), plain=min(costs)[1])
    ratios.add("scale", "first get_path of a compressed pod", "s", first_read(packed), plain=first_read(plain))


@pytest.mark.behaviour("scale/SC94")
def test_events_while_a_dictionary_is_learnt(ratios: Ratios) -> None:
    """20,000 events a second to an informer that has just listed 2,000 pods, with compression and without."""
    pods = [pod(number, number + 1) for number in range(2_000)]
    new = (pod(number, 1_000_000 + number) for number in range(2_000))
    frames = [json.dumps({"type": "MODIFIED", "object": {"kind": "Pod", "apiVersion": "v1", **body}}) for body in new]
    chunks = [f"{frame}\n".encode() for frame in frames]
    waits: dict[str, list[float]] = {"off": [], "auto": []}
    rounds = 3
    for _ in range(rounds):
        waits["auto"].append(p99(events_until_learnt(cached(pods, "auto"), chunks, most=1.0)))
        waits["off"].append(p99(events_until_learnt(cached(pods, "off"), chunks, most=0.4)))
    name = "event while a dictionary is learnt, p99"
    ratios.add("scale", name, "s", min(waits["auto"]), without_compression=min(waits["off"]))


def events_until_learnt(informer: SharedInformer, chunks: list[bytes], *, most: float) -> list[float]:
    """Return the seconds of each event until there is a dictionary, for `most` seconds at the most."""
    taken = []
    begun = time.perf_counter()
    for number in itertools.count():
        due = begun + number * 50e-6
        while (start := time.perf_counter()) < due:
            pass
        informer.feed_watch(chunks[number % len(chunks)])
        informer.process()
        taken.append(time.perf_counter() - start)
        if start > begun + most or (number % 100 == 0 and informer.stats()["dictionaries_learnt"]):
            break
    return taken


def cached(pods: list[dict[str, object]], compression: Literal["off", "auto", "on"]) -> SharedInformer:
    """Return an informer that has listed the pods."""
    informer = SharedInformer("pods", "v1", "Pod", compression=compression)
    informer.begin_list()
    informer.feed_list(json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods}).encode())
    informer.end_page()
    informer.replace("1")
    informer.process()
    return informer


def body_of(informer: SharedInformer) -> float:
    """Return the mean bytes of a body."""
    stats = informer.stats()
    size: float = stats["memory"]["body"] / stats["objects"]
    return size


def changed(informer: SharedInformer, pods: list[dict[str, object]], turn: int) -> float:
    """Return the seconds per event for new states of all pods."""
    new = (pod(number, turn * 1_000_000 + number) for number in range(len(pods)))
    frames = [json.dumps({"type": "MODIFIED", "object": {"kind": "Pod", "apiVersion": "v1", **body}}) for body in new]
    chunks = ["\n".join([*frames[at : at + 100], ""]).encode() for at in range(0, len(frames), 100)]
    started = time.perf_counter()
    for chunk in chunks:
        informer.feed_watch(chunk)
        informer.process()
    return (time.perf_counter() - started) / len(frames)


def first_read(informer: SharedInformer) -> float:
    """Return the seconds for the first field of an object, the best of some rounds over all."""
    best = 1.0
    for _ in range(5):
        # Each object is dropped before the next one is read: what is measured is not the growth of the process.
        objects = list(informer.indexer.list())
        count, started = len(objects), time.perf_counter()
        while objects:
            objects.pop().get_path("status", "phase")
        best = min(best, (time.perf_counter() - started) / count)
    return best


@pytest.mark.behaviour("scale/SC159")
@pytest.mark.behaviour("faster/FA8")
def test_idle_informers_over_tls(ratios: Ratios, stub_pods: Callable[..., Any]) -> None:
    with stub_pods(0, 0, tls=True) as (url, ca):
        figures = run("idle", url, 60, ca)
    ratios.add("scale", "50 idle informers over TLS: part of a processor", "", figures["cpu"])
    ratios.add("scale", "50 idle informers over TLS: memory of each", "B", figures["bytes_per_informer"])
