"""One informer against the stub server, in a process of its own so that its memory can be read.

    python -m benches.informers ctrlhost|official|kopf|latency|latency-beside|idle URL EVENTS

Prints the seconds of the first list, the events per second after it and the resident bytes per pod, as JSON; or the
latency from event to reconcile; or the cost of idle informers.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 600.0


def resident_bytes() -> int:
    """Return the resident set of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def peak_bytes() -> int:
    """Return the peak resident set of this process."""
    (line,) = [one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def report(pods: int, listed: float, events: int, followed: float, grown: int) -> dict[str, float]:
    return {
        "pods": pods,
        "list_seconds": listed,
        "events_per_second": events / followed if events else 0.0,
        "bytes_per_pod": grown / max(pods, 1),
    }


def ctrlhost_informer(url: str, events: int) -> dict[str, float]:
    """Run ctrlhost's informer: keys go to a queue in Rust, without a Python handler."""
    import ctrlhost
    from benches.stub_pods import FIRST_REVISION
    from ctrlhost.workqueue import WorkQueue

    client = ctrlhost.Client(url)
    queue = WorkQueue("bench")
    before = resident_bytes()
    factory = ctrlhost.InformerFactory(client)
    pods = factory.informer("v1", "Pod")
    pods.enqueue_to(queue, key="object")
    start = time.perf_counter()
    factory.start()
    factory.wait_for_sync(LIMIT)
    listed = time.perf_counter() - start
    begun, last = time.perf_counter(), str(FIRST_REVISION + events)
    while events and pods.last_resource_version != last and time.perf_counter() - begun < LIMIT:
        time.sleep(0.001)
    followed = time.perf_counter() - begun
    count = len(pods.indexer.list_keys())
    assert len(queue) == count
    grown = resident_bytes() - before
    peak = (peak_bytes() - before) / grown
    factory.stop()
    return report(count, listed, events, followed, grown) | {"peak_to_steady": peak}


def reconcile_latency(url: str, events: int, *, beside: bool) -> dict[str, float]:
    """Measure the time from sending an event to the start of its reconcile, optionally `beside` a computing thread."""
    import types

    import ctrlhost
    from benches.stub_pods import FIRST_REVISION
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.host.host import Host

    times: list[int] = []
    busy = True

    def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
        now = time.monotonic_ns()
        pod = ctx.get(request)
        if pod is not None and (sent := pod.annotations.get("sent")):
            times.append(now - int(sent))

    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("pods", reconcile, ctrlhost.For("v1", "Pod"))

    def compute() -> None:
        number = 0
        while busy:
            number = (number * 31 + 7) % 1_000_003

    module: Any = types.ModuleType("latency")
    module.ctrlhost_setup = ctrlhost.hookimpl(setup)
    client = ctrlhost.Client(url)
    host = Host(HostSettings(listen=""), [module], client=client)
    if beside:
        threading.Thread(target=compute, daemon=True).start()
    # As `ctrlhost run` does.
    sys.setswitchinterval(host.settings.switch_interval)
    host.start()
    assert host.factory is not None
    while not host.factory.informers():
        time.sleep(0.001)
    (pods,) = host.factory.informers()
    begun, last = time.perf_counter(), str(FIRST_REVISION + events)
    while pods.last_resource_version != last and time.perf_counter() - begun < LIMIT:
        time.sleep(0.01)
    followed = time.perf_counter() - begun
    time.sleep(0.5)
    busy = False
    host.stop(5)
    # The first tenth warms up: threads, batches and the processor's clock.
    ordered = sorted(times[len(times) // 10 :])
    at = {part: ordered[int(len(ordered) * part / 1000)] / 1e9 for part in (500, 990, 999)}
    return {"p50": at[500], "p99": at[990], "p999": at[999], "runs": len(times), "seconds": followed}


def idle_informers(url: str, events: int) -> dict[str, float]:
    """Measure the processor time of 50 idle informers, each with a queue and two Python handlers."""
    import ctrlhost
    from ctrlhost.workqueue import WorkQueue

    del events
    factory = ctrlhost.InformerFactory(ctrlhost.Client(url))
    before = threading.active_count()
    for number in range(50):
        informer = factory.informer("v1", "Pod", field_selector=f"spec.nodeName=n{number}")
        informer.enqueue_to(WorkQueue())
        for _ in range(2):
            informer.add_handler(on_add=lambda obj, initial: None)
    factory.start()
    assert factory.wait_for_sync(LIMIT)
    time.sleep(2)
    threads = threading.active_count() - before
    began, spent = time.perf_counter(), time.process_time()
    time.sleep(10)
    return {"cpu": (time.process_time() - spent) / (time.perf_counter() - began), "threads_per_informer": threads / 50}


def official_informer(url: str, events: int) -> dict[str, float]:
    """Run the official client's informer with handlers that put the key into a set."""
    from kubernetes import client
    from kubernetes.informer import ADDED, MODIFIED, SharedInformer

    configuration = client.Configuration()
    configuration.host = url
    api = client.CoreV1Api(client.ApiClient(configuration))
    before, keys, times = resident_bytes(), set(), []
    done = threading.Event()

    def added(pod: Any) -> None:
        keys.add((pod.metadata.namespace, pod.metadata.name))

    def modified(pod: Any) -> None:
        keys.add((pod.metadata.namespace, pod.metadata.name))
        times.append(time.perf_counter())
        if len(times) == events:
            done.set()

    informer = SharedInformer(list_func=api.list_pod_for_all_namespaces)
    informer.add_event_handler(ADDED, added)
    informer.add_event_handler(MODIFIED, modified)
    start = time.perf_counter()
    informer.start()
    while len(informer.cache.list()) == 0 and time.perf_counter() - start < LIMIT:
        time.sleep(0.01)
    listed = time.perf_counter() - start
    if events:
        done.wait(LIMIT)
    count = len(informer.cache.list())
    grown = resident_bytes() - before
    followed = times[-1] - times[0] if len(times) > 1 else float("inf")
    return report(count, listed, len(times), followed, grown)


def kopf_decoding(url: str, events: int) -> dict[str, float]:
    """Decode as kopf does: `json.loads` of list and lines, dicts kept; without its event loop and handlers."""
    import urllib3

    pool = urllib3.PoolManager()
    before, start = resident_bytes(), time.perf_counter()
    listing = json.loads(pool.request("GET", f"{url}/api/v1/pods").data)
    cache = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in listing["items"]}
    listed = time.perf_counter() - start
    del listing
    begun, seen, pending = time.perf_counter(), 0, b""
    if events:
        answer = pool.request("GET", f"{url}/api/v1/pods?watch=1&resourceVersion=1000000", preload_content=False)
        for chunk in answer.stream(1 << 16):
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                changed = json.loads(line)["object"]
                cache[changed["metadata"]["namespace"], changed["metadata"]["name"]] = changed
            seen += len(lines)
            if seen >= events:
                break
    followed = time.perf_counter() - begun
    return report(len(cache), listed, seen, followed, resident_bytes() - before)


MEASURED: dict[str, Callable[[str, int], dict[str, float]]] = {
    "ctrlhost": ctrlhost_informer,
    "official": official_informer,
    "kopf": kopf_decoding,
    "latency": lambda url, events: reconcile_latency(url, events, beside=False),
    "latency-beside": lambda url, events: reconcile_latency(url, events, beside=True),
    "idle": idle_informers,
}


def main() -> None:
    """Measure the informer that the arguments name."""
    print(json.dumps(MEASURED[sys.argv[1]](sys.argv[2], int(sys.argv[3]))), flush=True)
    # Daemon threads of the peers may still read from their watches; nothing needs saving.
    sys.stdout.flush()
    import os

    os._exit(0)


if __name__ == "__main__":
    main()
