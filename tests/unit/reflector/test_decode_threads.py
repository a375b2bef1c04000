"""The threads of the core that read, decode and process for all informers of a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctrlhost import _core
from ctrlhost.client import Client
from ctrlhost.errors import CtrlhostError
from ctrlhost.informers import InformerFactory, ReflectorOptions
from ctrlhost.transport.metrics import ThreadMetrics
from ctrlhost.workqueue import WorkQueue
from tests.support.informer_rig import PODS, QUICK, Rig
from tests.support.stub_api_server import (
    Answer,
    Failure,
    Frames,
    Json,
    StubApiServer,
    bookmark,
    event,
    pod,
    pod_list,
    serve,
)
from tests.support.stub_http import Handler
from tests.support.tls_files import Authority
from tests.support.waiting import eventually
from tests.unit.streams import open_stream

behaviour = pytest.mark.behaviour
SERVICES = "/api/v1/services"
MIB = 1 << 20


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[tuple[StubApiServer, str]]:
    """A server with TLS, and its authority."""
    authority = Authority(tmp_path)
    with StubApiServer(tls=authority.server_context()) as server:
        yield server, authority.pem


@pytest.fixture
def hook() -> Iterator[Any]:
    """What sets the function that is called before each step of a decode thread."""
    yield _core._decode_hook
    _core._decode_hook(None)


_FIFTY = """
import json, os, pathlib, sys, threading
from ctrlhost.client import Client
from ctrlhost.informers import InformerFactory, ReflectorOptions
from ctrlhost.transport.metrics import ThreadMetrics
factory = InformerFactory(Client(sys.argv[1], ca=sys.argv[2]), options=ReflectorOptions(watch_list=False))
for number in range(50):
    factory.informer("v1", "Pod", label_selector=f"number={number}")
factory.start()
assert factory.wait_for_sync(60)
while any(informer.state != "watching" for informer in factory.informers()):
    pass
tasks = [pathlib.Path("/proc/self/task", task, "comm").read_text().strip() for task in os.listdir("/proc/self/task")]
print(json.dumps([tasks, [thread.name for thread in threading.enumerate()]]))
factory.stop()
"""


@behaviour("scale/SC1")
def test_fifty_informers_need_one_io_thread_and_the_decode_threads(tls_server: tuple[StubApiServer, str]) -> None:
    server, ca = tls_server
    serve(server, PODS, [Json(pod_list(1, pod("a", 1)))], [Frames()])
    ran = subprocess.run(
        [sys.executable, "-c", _FIFTY, server.url, ca], check=True, capture_output=True, text=True, timeout=120
    )
    tasks, python = json.loads(ran.stdout)
    assert len(server.received(watch=True)) == 50
    assert sorted(python) == ["MainThread", "ctrlhost answers", "ctrlhost reflectors"]
    # Names are cut after 15 characters.
    assert tasks.count("ctrlhost-io") == 1
    assert 1 <= tasks.count("ctrlhost-decode") <= min(4, os.cpu_count() or 1)
    assert len(tasks) == len(python) + 1 + tasks.count("ctrlhost-decode")


@behaviour("scale/SC5")
def test_each_watch_has_a_connection_and_resumes_a_session(tls_server: tuple[StubApiServer, str]) -> None:
    server, ca = tls_server
    watches = [Frames() for _ in range(40)]
    serve(server, PODS, [Json(pod_list(1, pod("a", 1)))], [*watches])
    server.on("GET", "/api/v1/namespaces/default/pods/a", Json(pod("a", 1)))
    client = Client(server.url, ca=ca)
    clients = [client.derive(field_manager=f"manager {number}") for number in range(3)]
    factory = InformerFactory(client, options=ReflectorOptions(watch_list=False, backoff=QUICK))
    for number in range(20):
        factory.informer("v1", "Pod", label_selector=f"number={number}")
    with factory:
        assert factory.wait_for_sync(60)
        for reader in clients:
            reader.get("v1", "Pod", "a", "default", timeout=60)
        eventually(lambda: all(frames.opened.is_set() for frames in watches[:20]))
        transport: Any = client.transport
        eventually(lambda: transport.connections()["stream"] == 20)
        counts = transport.connections()
        assert (counts["call"], counts["connecting"]) == (0, 0)
        assert counts["idle"] <= 32
        assert server.open_connections == 20 + counts["idle"]
        # A watch takes an idle connection if there is one.
        client.close()
        for before, after in zip(watches[:20], watches[20:], strict=True):
            before.cut()
            assert after.opened.wait(30)
        later = transport.connections()
        assert later["full"] == counts["full"]
        assert later["resumed"] == counts["resumed"] + 20
    client.close()


class Flood(Answer):
    """A watch that sends pods of 8 KiB as fast as they are read, and counts the bytes."""

    def __init__(self, events: int) -> None:
        self.events = events
        self.sent = 0

    def send(self, handler: Handler) -> None:
        handler.start(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
        for number in range(self.events):
            changed = pod("a", number + 2, text="x" * 8192)
            frame = json.dumps(event("MODIFIED", changed)).encode() + b"\n"
            handler.chunk(frame)
            self.sent += len(frame)
        handler.stub.stopping.wait()


@behaviour("scale/SC7")
def test_an_informer_that_is_behind_holds_back_its_own_connection(server: StubApiServer, hook: Any) -> None:
    total = 64 * MIB
    flood = Flood(total // 8192)
    services = Frames()
    serve(server, PODS, [Json(pod_list(1, pod("a", 1)))], [flood])
    empty = {"kind": "ServiceList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}
    serve(server, SERVICES, [Json(empty)], [services])
    server.on("GET", "/api/v1/namespaces/default/pods/a", Json(pod("a", 1)))
    rig = Rig(server)
    held, goes_on = threading.Event(), threading.Event()
    versions: list[int] = []

    def before_step(resource: str) -> None:
        if resource == "pods" and rig.pods.has_synced:
            held.set()
            goes_on.wait()

    hook(before_step)
    rig.pods.add_handler(on_update=lambda _, new: versions.append(int(new.resource_version)), every_change=True)
    others = rig.factory.informer("v1", "Service")
    rig.synced()
    try:
        assert held.wait(30)
        reflector = rig.pods.parts[0].reflector
        stream: Any = reflector._requests._stream
        eventually(lambda: reflector.held_back > 0)
        assert 4 * MIB <= stream.waiting <= 4 * MIB + 256 * 1024
        # What else was sent is in the buffers of the two sockets.
        sent = flood.sent
        assert sent < total
        held_back = reflector.held_back
        # Another informer and calls go on.
        for number in range(10):
            services.send_event({"type": "ADDED", "object": {**pod(f"s{number}", 2), "kind": "Service"}})
            eventually(lambda number=number: len(others.indexer) == number + 1)
            rig.client.get("v1", "Pod", "a", "default")
        assert stream.waiting <= 4 * MIB + 256 * 1024
        assert flood.sent < total
        assert reflector.held_back > held_back
        metric = next(
            metric for metric in rig.factory.metrics.collect() if metric.name == "ctrlhost_informer_held_back_seconds"
        )
        values = {sample.labels["resource"]: sample.value for sample in metric.samples}
        assert values["pods"] > held_back
        assert values["services"] == 0
        assert not versions
    finally:
        goes_on.set()
    eventually(lambda: len(versions) == flood.events, timeout=60)
    assert versions == list(range(2, flood.events + 2))
    rig.stop()


@behaviour("scale/SC23")
def test_a_panic_in_a_decode_step_ends_one_stream_which_begins_again(
    rig: Rig, server: StubApiServer, hook: Any
) -> None:
    first, second = Frames(), Frames()
    services = Frames()
    serve(server, SERVICES, [Json({**pod_list(1), "kind": "ServiceList"})], [services])
    others = rig.factory.informer("v1", "Service")
    rig.serve([Json(pod_list(1, pod("a", 1))), Json(pod_list(5, pod("b", 5)))], [first, second]).synced()
    eventually(lambda: rig.pods.state == others.state == "watching")
    panics = rig.client.transport.connections()["panics"]  # type: ignore[attr-defined]

    def before_step(resource: str) -> None:
        assert resource != "pods", "injected"

    hook(before_step)
    first.send_event(event("ADDED", pod("c", 2)))
    (error,) = eventually(lambda: list(rig.errors))
    hook(None)
    assert type(error) is CtrlhostError
    assert str(error).endswith("/pods: internal error: a decode thread panicked")
    # Events may be lost, so it lists.
    rig.holds(b=5)
    second.send_event(event("ADDED", pod("d", 6)))
    rig.holds(b=5, d=6)
    assert rig.client.transport.connections()["panics"] > panics  # type: ignore[attr-defined]
    assert rig.status.errors["CtrlhostError"] >= 1
    services.send_event({"type": "ADDED", "object": {**pod("s", 2), "kind": "Service"}})
    eventually(lambda: len(others.indexer) == 1)
    assert (len(server.received(watch=True)), others.status().errors) == (3, 0)


def test_a_frame_may_be_cut_where_the_initial_events_end(rig_with: Any) -> None:
    rig = rig_with(watch_list=True)
    frames = Frames()
    rig.serve([], [frames]).start()
    end = json.dumps(bookmark(5, initial_end=True)).encode() + b"\n"
    change = json.dumps(event("ADDED", pod("b", 6))).encode() + b"\n"
    frames.send_bytes(end + change[:50])
    assert rig.factory.wait_for_sync(10)
    eventually(lambda: rig.pods.state == "watching")
    frames.send_bytes(change[50:])
    rig.holds(b=6)
    assert rig.errors == []
    assert len(rig.watches) == 1


def test_a_transform_runs_on_threads_of_its_own(rig: Rig) -> None:
    threads: set[str] = set()

    def transform(obj: Any) -> Any:
        threads.add(threading.current_thread().name)
        return obj

    rig.serve([Json(pod_list(2, pod("a", 1), pod("b", 2)))])
    changed = rig.factory.informer("v1", "Pod", transform=transform)
    queue = WorkQueue()
    changed.enqueue_to(queue)
    rig.synced()
    eventually(lambda: len(queue) == 2)
    assert threads == {"reflector Pod"}
    stream = open_stream(b"x")
    with pytest.raises(ValueError, match="needs a thread of its own"):
        _core.Following(changed.parts[0].engine, stream, "watch", 1.0)
    assert stream.read(10.0) + stream.read(10.0) == b"x"


def test_the_processor_time_of_both_kinds_of_threads_is_counted(rig: Rig) -> None:
    def busy() -> dict[str, float]:
        (family,) = ThreadMetrics().collect()
        assert family.name == "ctrlhost_transport_busy_seconds"
        return {sample.labels["thread"]: sample.value for sample in family.samples}

    before = busy()
    frames = Frames()
    rig.serve([Json(pod_list(1))], [frames]).synced()
    frames.send_event(event("ADDED", pod("a", 2)))
    rig.holds(a=2)
    # A thread counts when it has nothing more to do.
    eventually(lambda: all(value > before[thread] for thread, value in busy().items()))
    assert set(before) == {"io", "decode"}


def test_an_on_error_that_blocks_holds_up_its_own_informer_only(server: StubApiServer) -> None:
    goes_on = threading.Event()
    failed: list[str] = []

    def on_error(key: str, _error: Exception) -> None:
        failed.append(key)
        goes_on.wait()

    serve(server, PODS, [Failure(500), Json(pod_list(1, pod("a", 1)))], [Frames()])
    serve(server, SERVICES, [Json({**pod_list(1), "kind": "ServiceList"})], [Frames()])
    options = ReflectorOptions(watch_list=False, backoff=QUICK)
    factory = InformerFactory(Client(server.url), options=options, on_error=on_error)
    pods = factory.informer("v1", "Pod")
    try:
        factory.start()
        eventually(lambda: failed == ["Pod.v1"])
        services = factory.informer("v1", "Service")
        factory.start()
        eventually(lambda: services.has_synced)
        assert not pods.has_synced
        goes_on.set()
        eventually(lambda: pods.has_synced)
    finally:
        goes_on.set()
        factory.stop()
