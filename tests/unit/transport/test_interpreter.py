"""What the transport needs the interpreter for: to begin and to end a call, and nothing for an event of a queue."""

from __future__ import annotations

import ctypes
import linecache
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctrlhost import _core
from ctrlhost.client import Client
from ctrlhost.informers import InformerFactory, ReflectorOptions
from ctrlhost.transport.followed import NativeStream
from ctrlhost.workqueue import WorkQueue
from tests.support.event_server import event_server
from tests.support.gates import Gate
from tests.support.tls_files import Authority
from tests.support.waiting import eventually

EVENTS = 1_000


@pytest.fixture(params=["http", "https"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Client, Gate]]:
    """A client of a server in another process, and the gate for the events of its watches."""
    cert, ca = "", None
    if request.param == "https":
        authority = Authority(tmp_path)
        authority.server_context()
        cert, ca = str(tmp_path / "localhost.pem"), authority.pem
    with event_server(tmp_path, EVENTS, cert) as (port, gate):
        client = Client(f"{request.param}://127.0.0.1:{port}", ca=ca)
        yield client, gate
        client.close()


def follows() -> bool:
    """Return whether a thread of an informer waits in the core for events, and no longer for the interpreter."""
    frames = [one for one in sys._current_frames().values() if one.f_code is NativeStream.follow.__code__]
    return any("follow_stream" in linecache.getline(one.f_code.co_filename, one.f_lineno) for one in frames)


@pytest.fixture
def watching(served: tuple[Client, Gate]) -> Iterator[WorkQueue]:
    """A queue that a watch fills by a native mapping."""
    client, _ = served
    factory = InformerFactory(client, options=ReflectorOptions(watch_list=False))
    informer = factory.informer("v1", "Pod")
    queue = WorkQueue()
    informer.enqueue_to(queue)
    factory.start()
    assert factory.wait_for_sync(20)
    eventually(follows)
    yield queue
    factory.stop()


# A part of scale SC2: JSON alone, and events that come together.
def test_events_reach_the_queue_while_a_thread_holds_the_interpreter(
    served: tuple[Client, Gate], watching: WorkQueue
) -> None:
    _, gate = served
    # The call of C opens the gate, and keeps the interpreter for two seconds from then on.
    ctypes.PyDLL(None).system(f": > {gate.path}; sleep 2".encode())
    released = time.monotonic()
    queued = watching.snapshot().queued
    since = time.monotonic() - released
    assert len(queued) == EVENTS
    assert min(key.age for key in queued) > since


@pytest.mark.behaviour("scale/SC132")
def test_a_call_releases_the_interpreter_once_and_events_do_not(
    served: tuple[Client, Gate], watching: WorkQueue
) -> None:
    client, gate = served
    client.get("v1", "ConfigMap", "a", "default")
    before = _core._detached()
    for _ in range(1_000):
        client.get("v1", "ConfigMap", "a", "default")
    gets = _core._detached() - before
    # The informer's thread wakes up now and then.
    assert 1_000 <= gets < 1_010
    before = _core._detached()
    gate.open()
    eventually(lambda: len(watching) == EVENTS)
    assert _core._detached() - before < EVENTS / 20
