"""What a cache of varied pods takes, above one without pods: memory, and the time of a million."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from benches.test_informer import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from benches.ratios import Ratios

pytestmark = pytest.mark.scale


def cached(encoding: str, server: str, *ca: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benches.caches", encoding, server, *ca]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=800)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


@pytest.fixture(scope="module")
def empty(stub_pods: Callable[..., Any]) -> dict[str, float]:
    """A cache of no pods."""
    with stub_pods(0, 0, tls=True) as (url, ca):
        return cached("auto", url, ca)


@pytest.mark.behaviour("scale/SC86")
@pytest.mark.behaviour("scale/SC102")
@pytest.mark.behaviour("scale/SC103")
@pytest.mark.behaviour("scale/SC157")
@pytest.mark.behaviour("faster/FA13")
def test_memory_of_varied_pods(
    ratios: Ratios, stub_pods: Callable[..., Any], go_peers: Callable[..., dict[str, float]], empty: dict[str, float]
) -> None:
    count = 100_000
    with stub_pods(count, 0, tls=True) as (url, ca):
        ours = cached("auto", url, ca)
        go = go_peers("informer", url, "0", ca)
    with stub_pods(count, 0, tls=True, stream=True) as (url, ca):
        streamed = cached("auto", url, ca)
    assert ours["pods"] == streamed["pods"] == count
    listed = go.get("list_seconds", 0.0) / count
    ratios.add("scale", "pod of a large list over TLS", "s", ours["seconds"] / count, client_go=listed)
    above = ours["resident_bytes"] - empty["resident_bytes"]
    peer = go.get("bytes_per_pod", 0.0)
    name = "memory per varied pod"
    ratios.add("scale", name, "B", above / count, client_go=peer)
    for part in ("header", "body", "index", "table", "dictionary"):
        if (counted := ours.get(f"counted_{part}")) is not None:
            plain = {"plain": ours["counted_plain"] / count} if part == "body" and "counted_plain" in ours else {}
            ratios.add("scale", f"{name}: {part}", "B", counted / count, **plain)
    for how, figures in (("in pages", ours), ("as a stream", streamed)):
        peak, steady = (figures[f"{part}_bytes"] - empty["resident_bytes"] for part in ("peak", "resident"))
        ratios.add("scale", f"peak of the memory while listing {how} to its steady state", "", peak / steady)
    ratios.add("scale", "first read of a field of a cached pod", "s", ours["read_seconds"])


@pytest.mark.behaviour("faster/FA5")
def test_memory_of_a_library_user(ratios: Ratios, stub_pods: Callable[..., Any]) -> None:
    """Without a host, 5 s after the sync; the process had imported everything before."""
    for which, form in (("library-json", "JSON"), ("library", "protobuf")):
        with stub_pods(10_000, 0, tls=True) as (url, ca):
            figures = run(which, url, 5, ca)
        name = f"library with 10,000 varied pods in {form}"
        ratios.add("scale", f"{name}: growth of the memory", "B", figures["grown_bytes"])
        ratios.add("scale", f"{name}: counted", "B", figures["held_bytes"])
        ratios.add("scale", f"{name}: time until synced", "s", figures["list_seconds"])


@pytest.mark.behaviour("scale/SC154")
@pytest.mark.behaviour("faster/FA6")
def test_a_million_pods(ratios: Ratios, stub_pods: Callable[..., Any], empty: dict[str, float]) -> None:
    """Without a peer: client-go takes 18 GB. The limit of the time is for JSON, those of memory are for the default."""
    count = 1_000_000
    with stub_pods(count, 0, tls=True) as (url, ca):
        json_form, default = cached("json", url, ca), cached("auto", url, ca)
    above = default["resident_bytes"] - empty["resident_bytes"]
    for name, figures in (("JSON", json_form), ("the default encoding", default)):
        assert figures["pods"] == count
        ratios.add("scale", f"{count:,} pods in {name}: time until synced", "s", figures["seconds"])
    ratios.add("scale", f"{count:,} pods: memory", "B", default["resident_bytes"])
    peak = (default["peak_bytes"] - empty["resident_bytes"]) / above
    ratios.add("scale", f"{count:,} pods: peak of the memory to its steady state", "", peak)
