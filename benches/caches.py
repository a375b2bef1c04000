"""A cache of many pods whose queue is worked off, in a process of its own so that its memory can be read.

    python -m benches.caches auto|json SERVER [CA]

SERVER is a URL, with a CA file for TLS, or a kubeconfig. Prints the seconds until the cache was synced, resident bytes
after that and at the peak, those that the metrics of the informer have, and the seconds of a first read of a field of a
cached pod, as JSON.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import threading
import time
from typing import TYPE_CHECKING

import ctrlhost
from benches.informers import LIMIT, peak_bytes, resident_bytes
from ctrlhost.config.settings import HostSettings
from ctrlhost.reflector.encodings import Encodings
from ctrlhost.reflector.options import ReflectorOptions
from ctrlhost.workqueue import ShutDown, WorkQueue

if TYPE_CHECKING:
    from ctrlhost.cache import Indexer

#: So many pods are read.
READS = 2_000
#: Fewer pods are not compressed.
MANY = 2_000


def work_off(queue: WorkQueue) -> None:
    """Do nothing for each key, as a worker."""
    while True:
        try:
            queue.done_many(queue.get_batch(256))
        except ShutDown:
            return


def settled_bytes(pods: ctrlhost.Informer) -> int:
    """Return the resident set once the pods, if there are many, are compressed, and it no longer shrinks."""
    deadline = time.monotonic() + LIMIT
    count = len(pods.indexer) if len(pods.indexer) > MANY else 0
    while pods.parts[0].engine.stats()["compressed_objects"] < count and time.monotonic() < deadline:
        time.sleep(0.1)
    last = resident_bytes()
    while time.monotonic() < deadline:
        time.sleep(1.0)
        # What is compressed is freed a moment after it is counted.
        now = resident_bytes()
        if now > 0.99 * last:
            return now
        last = now
    return last


def counted_bytes(factory: ctrlhost.InformerFactory) -> dict[str, float]:
    """Return the bytes of the objects by part, and what the bodies would take plain, as the metrics have them."""
    names = ("ctrlhost_informer_memory_bytes", "ctrlhost_informer_plain_bytes")
    samples = (sample for family in factory.metrics.collect() for sample in family.samples if sample.name in names)
    return {f"counted_{sample.labels.get('part', 'plain')}": sample.value for sample in samples}


def first_read(indexer: Indexer) -> float:
    """Return the median of the seconds in which a field is read of a pod that was not read before."""
    keys, taken = indexer.list_keys(), []
    for key in keys[:: max(1, len(keys) // READS)]:
        start = time.perf_counter()
        pod = indexer.get_by_key(key)
        assert pod is not None
        phase = pod.get_path("status", "phase")
        taken.append(time.perf_counter() - start)
        assert phase
    return statistics.median(taken) if taken else 0.0


def main() -> None:
    """Measure a cache of the pods of the server that the arguments name."""
    encoding, server, *ca = sys.argv[1:]
    # As a host does.
    sys.setswitchinterval(HostSettings().switch_interval)
    client = ctrlhost.Client(server, ca=ca[0]) if ca else ctrlhost.Client.load(server)
    options = ReflectorOptions(encodings=Encodings("json" if encoding == "json" else "auto"))
    factory, queue = ctrlhost.InformerFactory(client, options=options), WorkQueue("bench")
    pods = factory.informer("v1", "Pod")
    pods.enqueue_to(queue, key="object")
    threading.Thread(target=work_off, args=(queue,), daemon=True).start()
    start = time.perf_counter()
    factory.start()
    assert factory.wait_for_sync(LIMIT)
    synced = time.perf_counter() - start
    resident = settled_bytes(pods)
    assert not len(queue)
    figures = counted_bytes(factory) | {
        "pods": len(pods.indexer),
        "seconds": synced,
        "resident_bytes": resident,
        "peak_bytes": peak_bytes(),
        "read_seconds": first_read(pods.indexer),
    }
    print(json.dumps(figures), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
