"""One informer against the stub server, in a process of its own so that its memory can be read.

    python -m benches.informers NAME URL EVENTS [CA]

NAME is one of `ctrlhost`, `json`, `json-beside`, `official`, `kopf`, `latency`, `latency-beside`, `idle`, `library` and
`library-json`. Prints the seconds of the first list, the events per second after it and the resident bytes per pod, as
JSON; or the latency from event to reconcile; or the cost of idle informers; or the growth of a process that uses the
library. `json`: as JSON, not protobuf. `beside`: while a thread computes. `idle` and `library`: EVENTS is the number of
seconds after the list.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 600.0


def resident_bytes() -> int:
    """Return the resident set of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def peak_bytes() -> int:
    """Return the peak resident set of this process."""
    (line,) = [text for text in Path("/proc/self/status").read_text().splitlines() if text.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def report(pods: int, listed: float, events: int, followed: float, grown: int) -> dict[str, float]:
    return {
        "pods": pods,
        "list_seconds": listed,
        "events_per_second": events / followed if events else 0.0,
        "bytes_per_pod": grown / max(pods, 1),
    }


class Computing:
    """A thread that runs a loop in pure Python and never blocks, while the block runs."""

    def __init__(self, *, wanted: bool) -> None:
        self._busy = wanted
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._busy = False
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while self._busy:
            number = (number * 31 + 7) % 1_000_003


def ctrlhost_informer(
    url: str, events: int, ca: str | None, *, encoding: Literal["auto", "json"] = "auto", beside: bool = False
) -> dict[str, float]:
    """Run ctrlhost's informer: keys go to a queue in Rust, without a Python handler."""
    import ctrlhost
    from benches.pods import FIRST_REVISION
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.reflector.encodings import Encodings
    from ctrlhost.reflector.options import ReflectorOptions
    from ctrlhost.workqueue import WorkQueue

    sys.setswitchinterval(HostSettings().switch_interval)
    client = ctrlhost.Client(url, ca=ca)
    queue = WorkQueue("bench")
    before = resident_bytes()
    factory = ctrlhost.InformerFactory(client, options=ReflectorOptions(encodings=Encodings(encoding)))
    pods = factory.informer("v1", "Pod")
    pods.enqueue_to(queue, key="object")
    start = time.perf_counter()
    factory.start()
    factory.wait_for_sync(LIMIT)
    listed = time.perf_counter() - start
    begun, last = time.perf_counter(), str(FIRST_REVISION + events)
    with Computing(wanted=beside):
        while events and pods.last_resource_version != last and time.perf_counter() - begun < LIMIT:
            time.sleep(0.001)
        followed = time.perf_counter() - begun
    count = len(pods.indexer.list_keys())
    assert len(queue) == count
    grown = resident_bytes() - before
    peak = (peak_bytes() - before) / grown
    factory.stop()
    return report(count, listed, events, followed, grown) | {"peak_to_steady": peak}


def reconcile_latency(url: str, events: int, ca: str | None, *, beside: bool) -> dict[str, float]:
    """Measure the time from sending an event to the start of its reconcile, optionally `beside` a computing thread."""
    import types

    import ctrlhost
    from benches.pods import FIRST_REVISION
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.host.host import Host

    times: list[int] = []

    def reconcile(ctx: ctrlhost.Context, request: ctrlhost.Request) -> None:
        now = time.monotonic_ns()
        pod = ctx.get(request)
        if pod is not None and (sent := pod.annotations.get("sent")):
            times.append(now - int(sent))

    def setup(plugin: ctrlhost.PluginContext) -> None:
        plugin.add_controller("pods", reconcile, ctrlhost.For("v1", "Pod"))

    module: Any = types.ModuleType("latency")
    module.ctrlhost_setup = ctrlhost.hookimpl(setup)
    client = ctrlhost.Client(url, ca=ca)
    host = Host(HostSettings(listen=""), [module], client=client)
    # As `ctrlhost run` does.
    sys.setswitchinterval(host.settings.switch_interval)
    with Computing(wanted=beside):
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
    host.stop(5)
    # The first tenth warms up: threads, batches and the processor's clock.
    ordered = sorted(times[len(times) // 10 :])
    at = {part: ordered[int(len(ordered) * part / 1000)] / 1e9 for part in (500, 990, 999)}
    return {"p50": at[500], "p99": at[990], "p999": at[999], "runs": len(times), "seconds": followed}


def idle_informers(url: str, seconds: int, ca: str | None) -> dict[str, float]:
    """Measure 50 idle informers, each with a queue and two Python handlers, beside ten others.

    What a process takes once for all its informers is there before.
    """
    import ctrlhost
    from ctrlhost.workqueue import WorkQueue

    def begin(numbers: range) -> ctrlhost.InformerFactory:
        factory = ctrlhost.InformerFactory(ctrlhost.Client(url, ca=ca))
        for number in numbers:
            informer = factory.informer("v1", "Pod", field_selector=f"spec.nodeName=n{number}")
            informer.enqueue_to(WorkQueue())
            for _ in range(2):
                informer.add_handler(on_add=lambda obj, initial: None)
        factory.start()
        assert factory.wait_for_sync(LIMIT)
        time.sleep(2)
        return factory

    others = begin(range(50, 60))
    before, resident = threading.active_count(), resident_bytes()
    factory = begin(range(50))
    threads = threading.active_count() - before
    began, spent = time.perf_counter(), time.process_time()
    time.sleep(seconds)
    cpu = (time.process_time() - spent) / (time.perf_counter() - began)
    grown = (resident_bytes() - resident) / 50
    assert others is not factory
    return {"cpu": cpu, "threads_per_informer": threads / 50, "bytes_per_informer": grown}


def growth_of_a_library_user(
    url: str, seconds: int, ca: str | None, *, encoding: Literal["auto", "json"] = "auto"
) -> dict[str, float]:
    """Measure by how much a process has grown so many seconds after its informer was synced, without queue and host."""
    import ctrlhost
    from ctrlhost.reflector.encodings import Encodings
    from ctrlhost.reflector.options import ReflectorOptions

    client = ctrlhost.Client(url, ca=ca)
    before = resident_bytes()
    factory = ctrlhost.InformerFactory(client, options=ReflectorOptions(encodings=Encodings(encoding)))
    pods = factory.informer("v1", "Pod")
    start = time.perf_counter()
    factory.start()
    assert factory.wait_for_sync(LIMIT)
    listed = time.perf_counter() - start
    time.sleep(seconds)
    held = sum(pods.parts[0].engine.stats()["memory"].values())
    return {"list_seconds": listed, "held_bytes": held, "grown_bytes": resident_bytes() - before}


def official_informer(url: str, events: int, _ca: str | None) -> dict[str, float]:
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


def kopf_decoding(url: str, events: int, _ca: str | None) -> dict[str, float]:
    """Decode as kopf does: `json.loads` of list and lines, dicts kept; without its event loop and handlers."""
    import urllib3

    from benches.pods import FIRST_REVISION

    pool = urllib3.PoolManager()
    before, start = resident_bytes(), time.perf_counter()
    listing = json.loads(pool.request("GET", f"{url}/api/v1/pods").data)
    cache = {(item["metadata"]["namespace"], item["metadata"]["name"]): item for item in listing["items"]}
    listed = time.perf_counter() - start
    del listing
    begun, seen, pending = time.perf_counter(), 0, b""
    if events:
        answer = pool.request(
            "GET", f"{url}/api/v1/pods?watch=1&resourceVersion={FIRST_REVISION}", preload_content=False
        )
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


MEASURED: dict[str, Callable[[str, int, str | None], dict[str, float]]] = {
    "ctrlhost": ctrlhost_informer,
    "json": partial(ctrlhost_informer, encoding="json"),
    "json-beside": partial(ctrlhost_informer, encoding="json", beside=True),
    "official": official_informer,
    "kopf": kopf_decoding,
    "latency": partial(reconcile_latency, beside=False),
    "latency-beside": partial(reconcile_latency, beside=True),
    "idle": idle_informers,
    "library": growth_of_a_library_user,
    "library-json": partial(growth_of_a_library_user, encoding="json"),
}


def main() -> None:
    """Measure the informer that the arguments name."""
    which, url, events, *ca = sys.argv[1:]
    print(json.dumps(MEASURED[which](url, int(events), ca[0] if ca else None)), flush=True)
    # Daemon threads of the peers may still read from their watches; nothing needs saving.
    sys.stdout.flush()
    import os

    os._exit(0)


if __name__ == "__main__":
    main()
