"""What the transport needs the interpreter for: to begin and to end a call, and nothing for an event of a queue."""

from __future__ import annotations

import ctypes
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctrlhost import _core
from ctrlhost.client import Client
from ctrlhost.informers import Informer, InformerFactory, ReflectorOptions
from ctrlhost.workqueue import WorkQueue
from tests.support import protobuf
from tests.support.gates import Gate
from tests.support.stub_api_server import event, pod
from tests.support.tls_files import Authority
from tests.support.waiting import eventually
from tests.unit.transport.event_server import event_server

EVENTS = 1_000
#: By encoding: the media type of a watch, and its frames. One comes at once, the others when the gate opens.
WATCHES = {
    "json": (
        "application/json",
        [json.dumps(event("ADDED", pod(f"p{number}", number + 10))).encode() + b"\n" for number in range(EVENTS + 1)],
    ),
    "protobuf": (
        "application/vnd.kubernetes.protobuf;stream=watch",
        [protobuf.event("ADDED", protobuf.pod(f"p{number}", number + 10)) for number in range(EVENTS + 1)],
    ),
}
#: Seconds between ten events and the next ten.
PAUSES = {"together": 0.0, "spread": 0.006}


class Watching:
    """A server in another process, the gate for its events, and the queue that a watch fills by a native mapping."""

    def __init__(self, client: Client, gate: Gate, informer: Informer, queue: WorkQueue) -> None:
        self.client, self.gate, self.informer, self.queue = client, gate, informer, queue


@pytest.fixture(params=["http", "https"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def encoding() -> str:
    return "json"


@pytest.fixture
def pauses() -> str:
    return "together"


@pytest.fixture
def watching(scheme: str, encoding: str, pauses: str, tmp_path: Path) -> Iterator[Watching]:
    cert, ca = "", None
    if scheme == "https":
        authority = Authority(tmp_path)
        authority.server_context()
        cert, ca = str(tmp_path / "localhost.pem"), authority.pem
    media, frames = WATCHES[encoding]
    with event_server(tmp_path, frames, cert, media=media, pause=PAUSES[pauses]) as (port, gate):
        client = Client(f"{scheme}://127.0.0.1:{port}", ca=ca)
        factory = InformerFactory(client, options=ReflectorOptions(watch_list=False))
        informer = factory.informer("v1", "Pod")
        queue = WorkQueue()
        informer.enqueue_to(queue)
        factory.start()
        assert factory.wait_for_sync(20)
        # A decode thread has the stream.
        eventually(lambda: len(queue) == 1)
        yield Watching(client, gate, informer, queue)
        factory.stop()
        client.close()


@pytest.mark.behaviour("scale/SC2")
@pytest.mark.parametrize("encoding", list(WATCHES))
@pytest.mark.parametrize("pauses", list(PAUSES))
def test_events_reach_the_queue_while_a_thread_holds_the_interpreter(watching: Watching, encoding: str) -> None:
    # The call of C opens the gate, and keeps the interpreter for two seconds from then on.
    ctypes.PyDLL(None).system(f": > {watching.gate.path}; sleep 2".encode())
    released = time.monotonic()
    queued = watching.queue.snapshot().queued
    since = time.monotonic() - released
    assert len(queued) == EVENTS + 1
    assert min(key.age for key in queued) > since
    (part,) = watching.informer.parts
    events, _, last_event_at, _ = part.engine.arrived()
    assert events == len(watching.informer.indexer) == EVENTS + 1
    assert last_event_at is not None
    assert last_event_at < released
    assert part.engine.stats()["encoding"] == encoding


@pytest.mark.behaviour("scale/SC132")
def test_a_call_releases_the_interpreter_once_and_events_do_not(watching: Watching) -> None:
    watching.client.get("v1", "ConfigMap", "a", "default")
    before = _core._detached()
    for _ in range(1_000):
        watching.client.get("v1", "ConfigMap", "a", "default")
    assert _core._detached() - before == 1_000
    before = _core._detached()
    watching.gate.open()
    eventually(lambda: watching.informer.parts[0].engine.arrived()[0] == EVENTS + 1)
    assert _core._detached() == before
    eventually(lambda: len(watching.queue) == EVENTS + 1)
