"""Many pods and events over TLS: the list and the watch of a server as clusters have it, against client-go.

The stub server is on the same cores; for a pod it takes about 3 µs of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benches.test_informer import median, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.ratios import Ratios


def test_events_over_tls(
    ratios: Ratios, go_peers: Callable[..., dict[str, float]], stub_pods: Callable[..., Any]
) -> None:
    """One event is one chunk and one TLS record, as the API server writes it."""
    pods, events, rounds = (500, 20_000, 1) if ratios.short else (2_000, 200_000, 3)
    with stub_pods(pods, events, batch=1, tls=True) as (url, ca):
        alone = median([run("ctrlhost", url, events, ca) for _ in range(rounds)], "events_per_second")
        beside = median([run("beside", url, events, ca) for _ in range(rounds)], "events_per_second")
        go = go_peers("informer", url, str(events), ca).get("events_per_second", 0.0)
    with stub_pods(pods, events, batch=1) as url:
        plain = median([run("ctrlhost", url, events) for _ in range(rounds)], "events_per_second")
    peer = 1 / go if go else 0.0
    ratios.add("scale", "event over TLS to queued key", "s", 1 / alone, client_go=peer, plain_http=1 / plain)
    name = "event over TLS to queued key, beside a computing thread"
    ratios.add("scale", name, "s", 1 / beside, client_go=peer, alone=1 / alone)


def test_a_large_list_over_tls(
    ratios: Ratios, go_peers: Callable[..., dict[str, float]], stub_pods: Callable[..., Any]
) -> None:
    pods, peers = (20_000, 20_000) if ratios.short else (1_000_000, 100_000)
    with stub_pods(pods, 0, tls=True) as (url, ca):
        ours = run("ctrlhost", url, 0, ca)
    with stub_pods(peers, 0, tls=True) as (url, ca):
        go = go_peers("informer", url, "0", ca)
    per_pod = {name: go.get(name, 0.0) / (peers if name == "list_seconds" else 1) for name in ours}
    seconds = ours["list_seconds"] / pods
    ratios.add("scale", "pod of a large list over TLS", "s", seconds, client_go=per_pod["list_seconds"])
    ratios.add("scale", "memory per varied pod", "B", ours["bytes_per_pod"], client_go=per_pod["bytes_per_pod"])
    ratios.add("scale", "large list over TLS: peak of the memory to its steady state", "", ours["peak_to_steady"])


def test_an_event_over_tls_reaches_its_reconcile(ratios: Ratios, stub_pods: Callable[..., Any]) -> None:
    pods, events, pace = (200, 10_000, 5_000) if ratios.short else (2_000, 100_000, 10_000)
    for which, beside in (("latency", "alone"), ("latency-beside", "beside a computing thread")):
        with stub_pods(pods, events, pace, tls=True) as (url, ca):
            found = run(which, url, events, ca)
        with stub_pods(pods, events, pace) as url:
            plain = run(which, url, events)
        for part in ("p50", "p99"):
            name = f"event over TLS to the start of its reconcile, {beside}, {part}"
            ratios.add("scale", name, "s", found[part], plain_http=plain[part])


def test_idle_informers_over_tls(ratios: Ratios, stub_pods: Callable[..., Any]) -> None:
    with stub_pods(10, 0, tls=True) as (url, ca):
        found = run("idle", url, 0, ca)
    ratios.add("scale", "50 idle informers over TLS: part of a processor", "", found["cpu"])
    ratios.add("scale", "50 idle informers over TLS: memory of each", "B", found["bytes_per_informer"])
