"""The first list of all pods of a real server, as an informer and as a bare download, by turns in one process.

    python -m benches.first_lists KUBECONFIG ROUNDS

Both open a connection and ask for protobuf. Prints the medians of the seconds until the informer has synced, of a list,
and of a list that comes as a stream, as JSON. Everything is imported before.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

import ctrlhost
from benches.bare_patches import connect
from benches.informers import LIMIT

PODS = "/api/v1/pods"
STREAM = f"{PODS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
END = b"k8s.io/initial-events-end"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def synced(kubeconfig: Path) -> float:
    """Return the seconds until an informer of all pods has synced."""
    client = ctrlhost.Client.load(kubeconfig)
    factory = ctrlhost.InformerFactory(client)
    factory.informer("v1", "Pod")
    start = time.perf_counter()
    factory.start()
    assert factory.wait_for_sync(LIMIT)
    taken = time.perf_counter() - start
    factory.stop()
    client.close()
    return taken


def download(kubeconfig: Path, path: str, end: bytes = b"") -> float:
    """Return the seconds of a bare download, connection and all, until an end in the answer, or its own."""
    start = time.perf_counter()
    connection, headers = connect(kubeconfig)
    connection.request("GET", path, headers=headers | {"Accept": PROTOBUF})
    answer, last = connection.getresponse(), b""
    assert answer.status == 200
    while piece := answer.read1(1 << 20):
        if end and end in last + piece:
            break
        last = piece[-len(end) :]
    taken = time.perf_counter() - start
    connection.close()
    return taken


def main() -> None:
    """Measure as the arguments say."""
    kubeconfig = Path(sys.argv[1])
    rounds = [
        (synced(kubeconfig), download(kubeconfig, PODS), download(kubeconfig, STREAM, END))
        for _ in range(int(sys.argv[2]))
    ]
    medians = map(statistics.median, zip(*rounds, strict=True))
    print(json.dumps(dict(zip(("informer", "list", "stream"), medians, strict=True))))


if __name__ == "__main__":
    main()
