"""The feed: what readers cost the host, and how late they get an event.

    python -m benches.feeds CHILDREN PODS EVENTS PACE

Runs a host with an informer of pods and its feed, and its readers in a second process; prints the figures as JSON.
Events are sent PACE a second. `python -m benches.feeds read …` is the second process.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benches.informers import resident_bytes

PATH = "/api/v1/pods"
_SENT = re.compile(rb'"sent": "([\d.]+)"')


def pod(name: str, version: int, sent: str = "0") -> dict[str, Any]:
    """Return a pod of about 5 KB."""
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "annotations": {"sent": sent},
    }
    return {"metadata": metadata, "spec": {"text": f"{version:05}" * 1000}}


def page(pods: int) -> bytes:
    items = [pod(f"pod-{number}", 1) for number in range(pods)]
    return json.dumps({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": items}).encode()


def frame(number: int, pods: int) -> bytes:
    changed = pod(f"pod-{number % pods}", 2 + number, f"{time.monotonic():.6f}")
    return json.dumps({"type": "MODIFIED", "object": changed}).encode() + b"\n"


def host(children: int, pods: int, events: int, pace: int) -> dict[str, float]:
    """Measure a host with so many readers."""
    from ctrlhost import _core
    from ctrlhost.supervisor.cache_server import FeedLimits

    limits = FeedLimits()
    engine = _core.SharedInformer("pods", "v1", "Pod")
    engine.begin_list()
    engine.feed_list(page(pods))
    engine.replace(engine.end_page().resource_version)
    engine.process()
    path = Path(tempfile.mkdtemp(), "feed.sock")
    feed = _core.Feed(
        window_events=limits.window_events,
        window_bytes=limits.window_bytes,
        waiting_events=limits.waiting_events,
        waiting_bytes=limits.waiting_bytes,
        patience=limits.patience,
        bookmark=limits.bookmark,
    )
    reader = feed.open(path, os.geteuid())
    kind = reader.declare("v1", "Pod")
    kind.set_resource("pods", True)
    kind.add("", engine)
    before = resident_bytes()
    command = [sys.executable, "-m", "benches.feeds", "read", str(path), str(children), str(events)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as readers:
        assert readers.stdout is not None
        assert readers.stdout.readline() == "ready\n"
        grown = resident_bytes() - before
        began, served, fed = time.monotonic(), serving_seconds(), 0.0
        for number in range(events):
            time.sleep(max(began + number / pace - time.monotonic(), 0))
            text = frame(number, pods)
            before = time.thread_time()
            engine.feed_watch(text)
            fed += time.thread_time() - before
            engine.process()
        latencies = json.loads(readers.stdout.readline())
        served = serving_seconds() - served
    feed.stop()
    memory = grown / max(children, 1)
    return {
        "served": served / events,
        "fed": fed / events,
        "memory": memory,
        "bare_write": bare_write(events, pace),
        **latencies,
    }


def serving_seconds() -> float:
    """Return the processor time of the thread that serves."""
    (task,) = (
        task_folder
        for task_folder in Path("/proc/self/task").iterdir()
        if (task_folder / "comm").read_text() == "feed\n"
    )
    return int((task / "schedstat").read_text().split()[0]) / 1e9


def bare_write(events: int, pace: int) -> float:
    """Return the processor time of writing an event to a waiting process, at the same pace."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        while theirs.recv(1 << 20):
            pass
        os._exit(0)
    theirs.close()
    text, used, began = frame(0, 1), 0.0, time.monotonic()
    for number in range(events):
        time.sleep(max(began + number / pace - time.monotonic(), 0))
        before = time.process_time()
        ours.sendall(text)
        used += time.process_time() - before
    ours.close()
    os.waitpid(pid, 0)
    return used / events


def read(path: str, children: int, events: int) -> None:
    """List and watch with so many readers, and print how late the events came."""
    waiting = selectors.DefaultSelector()
    rests: dict[socket.socket, bytes] = {}
    for _ in range(children):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)
        sock.sendall(f"GET {PATH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        tail = b""
        while not tail.endswith(b"0\r\n\r\n"):
            tail = (tail + sock.recv(1 << 20))[-5:]
        sock.sendall(f"GET {PATH}?watch=1&resourceVersion=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        while not tail.endswith(b"\r\n\r\n"):
            tail = sock.recv(1 << 20)
        rests[sock] = b""
        waiting.register(sock, selectors.EVENT_READ)
    print("ready", flush=True)
    late: list[float] = []
    while len(late) < children * events:
        for key, _ in waiting.select():
            sock: Any = key.fileobj
            data = rests[sock] + sock.recv(1 << 20)
            now = time.monotonic()
            end = data.rfind(b"\n") + 1
            rests[sock] = data[end:]
            late.extend(now - float(sent) for sent in _SENT.findall(data[:end]))
    late.sort()
    last = max(len(late) - 1, 0)
    print(json.dumps({"p50": late[last // 2], "p99": late[last * 99 // 100]} if late else {"p50": 0, "p99": 0}))


if __name__ == "__main__":
    if sys.argv[1] == "read":
        read(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        print(json.dumps(host(*map(int, sys.argv[1:]))))
